# SPDX-License-Identifier: Apache-2.0
"""What listens in the network of an engine, and when that may have changed.

`/proc/<pid>/net` shows the sockets. dockerd has a listening socket for each published port
(of its proxy) by the time it reports a container as started, so its events say when to look;
nothing is asked in between. Containers that use the engine's network directly listen whenever
they like: while there are any, it is looked every second. containerd has no such stream that
is worth a process; with it, the interfaces of the network tell (each container has one), and
it is looked again shortly after, and now and then.
"""

import asyncio
import contextlib
import ipaddress
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from rdd.vm.drivers.host import docker_api
from rdd.vm.drivers.host.sandbox import Sandbox
from rdd.vm.drivers.protocol import Listener

_TCP_LISTEN, _UDP_BOUND = "0A", "07"
_LOOK_OFTEN_S = 1.0
_LOOK_SELDOM_S = 5.0
_AFTER_A_CHANGE_S = (0.05, 0.2, 0.5, 1.0)
_RECONNECT_S = 0.5
_RTMGRP_LINK = 1
_EVENTS = {
    "type": ["container", "network"],
    "event": ["start", "die", "restart", "connect", "disconnect"],
}


def parse(text: str, protocol: str) -> set[Listener]:
    """The listeners in a file of /proc/net: `tcp`, `tcp6`, `udp` or `udp6`."""
    is_tcp = protocol == "tcp"
    found = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 4 or words[3] != (_TCP_LISTEN if is_tcp else _UDP_BOUND):
            continue
        address, _, port = words[1].partition(":")
        if int(port, 16):
            found.add(Listener("tcp" if is_tcp else "udp", _address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    """An address as the kernel prints it: words of four bytes, each in the machine's order."""
    packed = b"".join(
        struct.pack("=I", int(text[start : start + 8], 16)) for start in range(0, len(text), 8)
    )
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def look(pid: int, *, without: Iterable[Listener] = ()) -> frozenset[Listener]:
    """All listeners in the network of a process."""
    found: set[Listener] = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError):
            found |= parse(Path(f"/proc/{pid}/net/{name}").read_text(), name[:3])
    return frozenset(found.difference(without))


class ListenerWatch:
    """Follows what listens in a sandbox."""

    def __init__(
        self, sandbox: Sandbox, *, docker_socket: Path | None, without: Iterable[Listener]
    ) -> None:
        self._sandbox = sandbox
        self._docker_socket = docker_socket
        self._without = frozenset(without)
        self._changed = asyncio.Event()
        self._interval_s: float | None = None

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """All listeners now, and whenever they have changed."""
        follow = self._follow_links if self._docker_socket is None else self._follow_docker
        following = asyncio.create_task(follow(), name="listeners follow")
        try:
            last: frozenset[Listener] | None = None
            while True:
                self._changed.clear()
                found = look(self._sandbox.process.pid, without=self._without)
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
                events = docker_api.lines(path, f"/events?filters={docker_api.quoted(_EVENTS)}")
                async with contextlib.aclosing(events):
                    # The stream is open before this, so nothing is missed.
                    await self._note_direct_containers(path)
                    async for line in events:
                        if json.loads(line).get("Type") == "container":
                            await self._note_direct_containers(path)
                        self._changed.set()
            await asyncio.sleep(_RECONNECT_S)

    async def _note_direct_containers(self, path: Path) -> None:
        """Look often while containers use the engine's network as their own."""
        filters = docker_api.quoted({"network": ["host"], "status": ["running"]})
        direct = json.loads(await docker_api.get(path, f"/containers/json?filters={filters}"))
        self._interval_s = _LOOK_OFTEN_S if direct else None
        self._changed.set()

    async def _follow_links(self) -> None:
        self._interval_s = _LOOK_SELDOM_S
        async with link_changes(self._sandbox) as changed:
            while True:
                await changed.wait()
                changed.clear()
                for pause in _AFTER_A_CHANGE_S:
                    await asyncio.sleep(pause)
                    self._changed.set()


@contextlib.asynccontextmanager
async def link_changes(sandbox: Sandbox) -> AsyncIterator[asyncio.Event]:
    """Set whenever an interface of the sandbox comes, goes or changes."""
    changed = asyncio.Event()
    with sandbox.socket(socket.AF_NETLINK, socket.SOCK_RAW) as sock:
        sock.bind((0, _RTMGRP_LINK))
        with readable(sock, changed.set):
            yield changed


@contextlib.contextmanager
def readable(sock: socket.socket, told: Callable[[], None]) -> Iterator[None]:
    """Call `told` for whatever comes over a socket; what it says does not matter."""
    loop = asyncio.get_running_loop()

    def drain() -> None:
        with contextlib.suppress(OSError):  # nothing more; or too much, which tells as well
            while sock.recv(65536):
                pass
        told()

    loop.add_reader(sock, drain)
    try:
        yield
    finally:
        loop.remove_reader(sock)
