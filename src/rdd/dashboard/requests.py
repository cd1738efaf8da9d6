# SPDX-License-Identifier: Apache-2.0
"""Which requests the dashboard accepts, and the headers of its responses.

A wrong Host means that a foreign name was resolved to the loopback (DNS rebinding). A foreign
Origin, or a request that another site caused (Sec-Fetch-Site), is refused before anything
else looks at it; only navigations may come from elsewhere, because a link does.
"""

from typing import Any

import orjson

from rdd.api import errors
from rdd.http.body import BodyError, BodyPace, BodyTooLarge
from rdd.http.exchange import Exchange
from rdd.http.headers import HeaderList

COOKIE = "rdd_session"
CSRF_HEADER = "X-Rdd-Csrf"
MAX_BODY_BYTES = 64 * 1024
_PACE = BodyPace()
_OWN_SITE = ("", "same-origin")


def common_headers(host: str) -> HeaderList:
    """Return the headers of every response."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"font-src 'self'; manifest-src 'self'; connect-src 'self' ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return [
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        (
            "Permissions-Policy",
            "camera=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-write=(self)",
        ),
    ]


def is_navigation(exchange: Exchange) -> bool:
    """Return whether a request loads a document into a window."""
    headers = exchange.headers
    mode, destination = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return exchange.method in ("GET", "HEAD") and (mode, destination) == ("navigate", "document")


def check_origin(exchange: Exchange, *, is_page: bool) -> None:
    """Refuse requests that another site caused. Raises ApiError."""
    headers = exchange.headers
    own = f"http://{headers.get('Host').lower()}"
    foreign = [origin for origin in headers.getall("Origin") if origin.lower() != own]
    site = headers.get("Sec-Fetch-Site")
    if is_page and is_navigation(exchange):
        site = ""
    if foreign or (site not in _OWN_SITE and not (site == "none" and exchange.method == "GET")):
        raise errors.ApiError(
            "requests of other sites are refused", code=403, reason="ForeignOrigin"
        )


def cookies(exchange: Exchange) -> list[str]:
    """Return all values of the session's cookie.

    Ours need no quotes, so nothing is unquoted: the standard library takes seconds for some values.
    """
    pairs = (pair for line in exchange.headers.getall("Cookie") for pair in line.split(";"))
    parts = (pair.partition("=") for pair in pairs)
    return [value.strip() for name, _, value in parts if name.strip() == COOKIE]


async def read_json(exchange: Exchange) -> dict[str, Any]:
    """Return the body, which must be a JSON object. Raises ApiError."""
    media = exchange.headers.get("Content-Type").partition(";")[0].strip().lower()
    if media != "application/json":
        raise errors.UnsupportedMediaType("the body must be application/json")
    try:
        data = await exchange.body.read(limit=MAX_BODY_BYTES, pace=_PACE)
    except BodyTooLarge:
        raise errors.RequestEntityTooLarge(
            f"the body has more than {MAX_BODY_BYTES} bytes"
        ) from None
    except BodyError as error:
        raise errors.BadRequest(f"the body is incomplete: {error}") from None
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise errors.BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.BadRequest("the body must be a JSON object")
    return found


def text(body: dict[str, Any], name: str) -> str:
    """Return a required text of a body. Raises ApiError."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise errors.BadRequest(f"{name}: a text is required")
    return value


def send_json(exchange: Exchange, value: object, *, status: int = 200) -> None:
    """Send a value that must not be cached."""
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    exchange.send(status, headers, orjson.dumps(value))
