# SPDX-License-Identifier: Apache-2.0
"""The port of the dashboard.

Browsers resolve `rdd-<instance>.localhost` to 127.0.0.1 or [::1], whichever answers first. The
port is therefore bound on both: otherwise a program of another user could listen on the
other one and receive what the browser sends. If one of the two is taken, another port is used.

The port is kept across restarts, because an open page reconnects to it and its key belongs to
that origin. The site is loaded with the first connection: a daemon with an unused
dashboard pays for two sockets.
"""

import errno
import json
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.http.exchange import Exchange
from rdd.http.server import BACKLOG, Server
from rdd.instance import Instance

if TYPE_CHECKING:
    from rdd.dashboard.site import Site

log = logging.getLogger("rdd.dashboard")

_ATTEMPTS = 20


def host_name(instance: Instance) -> str:
    """Return the name under which browsers reach the dashboard."""
    return f"rdd-{instance.suffix}.localhost"


class DashboardListener:
    """The sockets of the dashboard."""

    def __init__(self, instance: Instance, make_site: "Callable[[int], Site]") -> None:
        self._instance = instance
        self._make_site = make_site
        self._site: Site | None = None
        self._server = Server(self._handle, http2=False)
        self.port = 0
        """The port in use; 0 if there is none."""

    @property
    def url(self) -> str:
        """The address of the dashboard."""
        return f"http://{host_name(self._instance)}:{self.port}/"

    async def start(self) -> None:
        """Listen on the port of the last run, the usual one or any free one."""
        try:
            sockets = bind(_last_port(self._instance), self._instance.ports.dashboard)
        except HostError as error:
            # Everything else works without a dashboard.
            log.warning("the dashboard is not available: %s", error)
            return
        self.port = sockets[0].getsockname()[1]
        for sock in sockets:
            await self._server.listen(sock)
        try:
            text = json.dumps({"port": self.port})
            if self.port != _last_port(self._instance):
                write_atomically(self._instance.dashboard_port_file, text, durable=False)
        except HostError as error:
            log.warning("the port of the dashboard is not recorded: %s", error)

    async def stop(self) -> None:
        """Disconnect all pages; they reconnect."""
        if self._site is not None:
            await self._site.close()
        await self._server.close(timeout_s=1.0)

    async def _handle(self, exchange: Exchange) -> None:
        if self._site is None:
            self._site = self._make_site(self.port)
        await self._site.handle(exchange)


def bind(*ports: int) -> list[socket.socket]:
    """Return sockets on the loopback addresses with one port, the first free one.

    Raises HostError.
    """
    families = [(socket.AF_INET, "127.0.0.1")]
    if _has_ipv6():
        families.append((socket.AF_INET6, "::1"))
    wanted = [*dict.fromkeys(port for port in ports if port), *[0] * _ATTEMPTS]
    for port in wanted:
        try:
            return _bind(families, port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise HostError.from_os(f"listen on 127.0.0.1:{port}", error) from error
    raise HostError("no port of 127.0.0.1 and [::1] is free")


def _bind(families: list[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, address in families:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, port))
            port = sock.getsockname()[1]
        for sock in sockets:
            sock.listen(BACKLOG)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _has_ipv6() -> bool:
    """Return whether the loopback has an IPv6 address."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _last_port(instance: Instance) -> int:
    try:
        port = json.loads(read_text(instance.dashboard_port_file) or "{}").get("port", 0)
    except (ValueError, AttributeError, HostError):
        return 0
    return port if isinstance(port, int) and 0 < port < 65536 else 0
