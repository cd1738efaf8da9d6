# SPDX-License-Identifier: Apache-2.0
"""A bearer token in the subprotocols of a WebSocket.

Browsers cannot set the Authorization header of a WebSocket. As in Kubernetes, the token may be
sent as the subprotocol `base64url.bearer.authorization.k8s.io.<token in base64url>` beside at
least one other subprotocol, which is the one the server selects. The token's subprotocol is
removed before the request is passed on.
"""

import base64
import binascii
from collections.abc import Mapping

from rdd.api.errors import Unauthorized
from rdd.http.headers import Headers

HEADER = "Sec-WebSocket-Protocol"
_PREFIX = "base64url.bearer.authorization.k8s.io."


def token_of(headers: Mapping[str, str]) -> str:
    """Return the token of a WebSocket request, empty if there is none. Raises Unauthorized."""
    if not is_websocket(headers):
        return ""
    protocols = _protocols(headers)
    encoded = [p.removeprefix(_PREFIX) for p in protocols if p.startswith(_PREFIX)]
    if not encoded:
        return ""
    if len(encoded) > 1 or len(encoded) == len(protocols):
        raise Unauthorized  # several tokens, or no subprotocol to select
    return _decoded(encoded[0])


def is_websocket(headers: Mapping[str, str]) -> bool:
    """Return whether the request asks for an upgrade to a WebSocket."""
    connection = headers.get("Connection", "").lower().split(",")
    is_upgrade = "upgrade" in map(str.strip, connection)
    return is_upgrade and headers.get("Upgrade", "").lower() == "websocket"


def without_token(headers: Mapping[str, str]) -> str:
    """Return the subprotocols without that of the token."""
    return ",".join(p for p in _protocols(headers) if not p.startswith(_PREFIX))


def _protocols(headers: Mapping[str, str]) -> list[str]:
    # The header may be repeated; only headers of a connection keep every value.
    values = headers.getall(HEADER) if isinstance(headers, Headers) else [headers.get(HEADER, "")]
    return [p for value in values for p in map(str.strip, value.split(",")) if p]


def _decoded(text: str) -> str:
    if "=" in text or not text:
        raise Unauthorized  # base64url without padding
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise Unauthorized from error
