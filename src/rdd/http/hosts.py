# SPDX-License-Identifier: Apache-2.0
"""The names under which a server may be addressed, and the pages that may open WebSockets.

A page of any website can make a browser connect to a server on the loopback interface: by a name
of its own that resolves to 127.0.0.1 (DNS rebinding), which makes the server part of the page's
origin, or by a WebSocket, which browsers allow across origins. The browser states both: the name in
Host (HTTP/2: `:authority`), the page in Origin. A request for another name is misdirected
(421), a WebSocket of a foreign page is forbidden (403). Other clients send no Origin.
"""

import ipaddress
import re
from collections.abc import Iterable

MISDIRECTED = 421
_MAX_REMEMBERED = 64
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{0,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/,]+")


class HostRules:
    """Accepts loopback names, and further ones."""

    def __init__(self, names: Iterable[str] = (), *, origins: Iterable[str] = ()) -> None:
        """Accept these host names and addresses; raise ValueError for what is neither."""
        self._names = frozenset(_checked(name) for name in names)
        self._origins = frozenset(_checked_origin(origin) for origin in origins)
        self.accepted: set[str] = set()
        """Headers that were accepted: nearly every request repeats one of them."""

    def accepts(self, host: str | None) -> bool:
        """Return whether a request may have this Host header; None: it has none."""
        if host is None or host in self.accepted:
            return True  # HTTP/1.0 has no Host; browsers always send one
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = _normal(match[1] or match[2])
        if name not in self._names and not is_loopback(name):
            return False
        if len(self.accepted) < _MAX_REMEMBERED:
            self.accepted.add(host)
        return True

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Return whether a page of this origin may open a WebSocket to this Host."""
        origin = origin.lower()
        return origin == f"https://{host.lower()}" or origin in self._origins


def is_loopback(name: str) -> bool:
    """Return whether a host name or address is always one of this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _normal(name: str) -> str:
    """Return a name in its only spelling: addresses have several."""
    name = name.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _checked(name: str) -> str:
    name = name.strip().removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(f"[{name}]" if ":" in name else name):
        raise ValueError(f"{name!r} is not a host name or an IP address")
    return _normal(name)


def _checked_origin(origin: str) -> str:
    origin = origin.strip().lower()
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(f"{origin!r} is not an origin such as https://example.com:8443")
    return origin
