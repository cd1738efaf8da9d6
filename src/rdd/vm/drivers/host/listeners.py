# SPDX-License-Identifier: Apache-2.0
"""The listening ports in the network of an engine, and notifications of changes.

`/proc/<pid>/net` lists the sockets. dockerd has a listening socket for each published port
(of its proxy) when it reports a container as started, so its events trigger a scan; there is
no polling in between. Containers in the engine's own network namespace can listen at any time:
while there are any, the scan runs every second. containerd has no event stream that would
justify a process; with it, changes of network interfaces (each container has one) trigger
several scans, and a slow poll finds the rest.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from rdd.vm.drivers.host import docker_api
from rdd.vm.drivers.host.sandbox import Sandbox
from rdd.vm.drivers.protocol import Listener
from rdd.vm.forwarding.proc_net import decode_address

_TCP_LISTEN, _UDP_BOUND = "0A", "07"
_FAST_POLL_S = 1.0
_SLOW_POLL_S = 5.0
_SCAN_DELAYS_S = (0.05, 0.2, 0.5, 1.0)
_RECONNECT_S = 0.5
_RTMGRP_LINK = 1
_EVENTS = {
    "type": ["container", "network"],
    "event": ["start", "die", "restart", "connect", "disconnect"],
}


def parse(text: str, protocol: str) -> set[Listener]:
    """Return the listeners in a file of /proc/net: `tcp`, `tcp6`, `udp` or `udp6`."""
    is_tcp = protocol == "tcp"
    found = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 4 or words[3] != (_TCP_LISTEN if is_tcp else _UDP_BOUND):
            continue
        address, _, port = words[1].partition(":")
        if int(port, 16):
            ip = decode_address(address, sys.byteorder)
            found.add(Listener("tcp" if is_tcp else "udp", ip, int(port, 16)))
    return found


def scan(pid: int, *, without: Iterable[Listener] = ()) -> frozenset[Listener]:
    """Return all listeners in the network of a process."""
    found: set[Listener] = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError):
            found |= parse(Path(f"/proc/{pid}/net/{name}").read_text(), name[:3])
    return frozenset(found.difference(without))


class ListenerWatch:
    """Follows the listeners in a sandbox."""

    def __init__(
        self, sandbox: Sandbox, *, docker_socket: Path | None, without: Iterable[Listener]
    ) -> None:
        self._sandbox = sandbox
        self._docker_socket = docker_socket
        self._without = frozenset(without)
        self._changed = asyncio.Event()
        self._interval_s: float | None = None

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """Yield all listeners, now and whenever they change."""
        follow = self._follow_links if self._docker_socket is None else self._follow_docker
        following = asyncio.create_task(follow(), name="listeners follow")
        try:
            last: frozenset[Listener] | None = None
            while True:
                self._changed.clear()
                found = scan(self._sandbox.process.pid, without=self._without)
                if found != last:
                    last = found
                    yield found
                await self._wait()
        finally:
            following.cancel()

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval_s):
                await self._changed.wait()

    async def _follow_docker(self) -> None:
        assert self._docker_socket is not None
        path = self._docker_socket
        while True:
            with contextlib.suppress(OSError, docker_api.BadAnswer):
                target = f"/events?filters={docker_api.quoted(_EVENTS)}"
                async with docker_api.open_lines(path, target) as events:
                    # The stream is open before this scan, so no event is missed.
                    await self._update_poll_interval(path)
                    async for line in events:
                        if json.loads(line).get("Type") == "container":
                            await self._update_poll_interval(path)
                        self._changed.set()
            await asyncio.sleep(_RECONNECT_S)

    async def _update_poll_interval(self, path: Path) -> None:
        """Poll fast while containers use the engine's own network namespace."""
        filters = docker_api.quoted({"network": ["host"], "status": ["running"]})
        direct = json.loads(await docker_api.get(path, f"/containers/json?filters={filters}"))
        self._interval_s = _FAST_POLL_S if direct else None
        self._changed.set()

    async def _follow_links(self) -> None:
        self._interval_s = _SLOW_POLL_S
        async with link_changes(self._sandbox) as changed:
            while True:
                await changed.wait()
                changed.clear()
                for pause in _SCAN_DELAYS_S:
                    await asyncio.sleep(pause)
                    self._changed.set()


@contextlib.asynccontextmanager
async def link_changes(sandbox: Sandbox) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set whenever an interface of the sandbox changes."""
    changed = asyncio.Event()
    with sandbox.socket(socket.AF_NETLINK, socket.SOCK_RAW) as sock:
        sock.bind((0, _RTMGRP_LINK))
        with readable(sock, changed.set):
            yield changed


@contextlib.contextmanager
def readable(sock: socket.socket, callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` for every message on a socket, whatever its content."""
    loop = asyncio.get_running_loop()

    def drain() -> None:
        with contextlib.suppress(OSError):  # drained; or an overrun, which is a change, too
            while sock.recv(65536):
                pass
        callback()

    loop.add_reader(sock, drain)
    try:
        yield
    finally:
        loop.remove_reader(sock)
