# SPDX-License-Identifier: Apache-2.0
"""The forwards of a guest, with relays in between while idle detection is on.

ssh listens on the forwarded addresses itself, so nothing sees what clients send. While idle
detection is on, ssh listens on private sockets instead, and relays of this process on the
addresses. Connections that ssh accepted before stay as they are.

The relays outlive the connection to the guest: while it is suspended they accept clients, and
hold them until the guest runs again. rdd's own socket (`docker.own`) is relayed, too, without
an observer: what rdd asks meanwhile waits as well, and wakes nothing.
"""

import asyncio
import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.vm.drivers.protocol import DriverContext, Endpoint, Forward, ForwardError
from rdd.vm.drivers.qemu.guest_connection import GuestConnection, check_free
from rdd.vm.forwarding.sockets import listen_inet, listen_unix
from rdd.vm.forwarding.streams import Observe, StreamRelay
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.connections import ConnectionObserver, PortObserver
from rdd.vm.idle.docker_paths import own_socket
from rdd.vm.idle.docker_requests import DockerObserver

_DOCKER_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")


class RelayedForwards:
    """Implements `PortForwarding` for a guest."""

    def __init__(self, context: DriverContext, connection: GuestConnection) -> None:
        self._context = context
        self._connection = connection
        self._sockets = context.directory.sockets
        self._activity: Activity | None = None
        self._is_observed = False
        self._open: dict[Forward, Forward] = {}
        """The forwards, and what ssh forwards for them."""
        self._relays: dict[Forward, list[StreamRelay]] = {}
        self._reachable = asyncio.Event()
        self._reachable.set()

    @property
    def hosts(self) -> Collection[Endpoint]:
        """The addresses of this host that are forwarded."""
        return [forward.host for forward in self._open]

    @property
    def docker_sockets(self) -> list[Path]:
        """rdd's own Docker sockets."""
        return [Path(own.socket) for own in map(_own, self._open) if own is not None]

    @property
    def clients(self) -> int:
        """How many connections of clients the relays have."""
        return sum(relay.clients for relays in self._relays.values() for relay in relays)

    def hold(self) -> None:
        """Hold new clients until `release`: the guest is about to be unreachable."""
        self._reachable.clear()

    def release(self) -> None:
        """Connect the clients that are held, and those that follow."""
        self._reachable.set()

    async def observe(self, activity: Activity, *, is_needed: bool) -> None:
        """Relay what is forwarded, or let ssh listen itself."""
        self._activity = activity
        if is_needed == self._is_observed:
            return
        self._is_observed = is_needed
        for forward in list(self._open):
            await self._close(forward)
            try:
                await self.open_forward(forward)
            except ForwardError as error:
                self._context.warn(f"{forward.host} is no longer forwarded: {error}")

    async def open_forward(self, forward: Forward) -> None:
        """Open a forward. Raises ForwardError."""
        if not self._is_observed or forward.reverse or forward.protocol != "tcp":
            if (own := _own(forward)) is not None:
                with suppress(ForwardError):  # rdd then uses the socket of clients
                    await self._connection.open_forward(replace(forward, host=own))
            await self._connection.open_forward(forward)
            self._open[forward] = forward
            return
        check_free(forward.host)
        inner = replace(forward, host=Endpoint(socket=str(self._inner_path(forward))))
        await self._connection.open_forward(inner)
        try:
            await self._relay(forward, inner)
        except (HostError, OSError) as error:
            await self._connection.close_forward(inner)
            if isinstance(error, OSError):
                raise ForwardError.from_os(str(forward.host), error) from error
            raise ForwardError(str(error)) from error
        self._open[forward] = inner

    async def close_forward(self, forward: Forward) -> None:
        """Close a forward and its open connections."""
        relays = self._relays.get(forward, [])
        await self._close(forward)
        for relay in relays:
            await relay.close()

    async def _close(self, forward: Forward) -> None:
        """Accept no more connections; open ones stay."""
        inner = self._open.pop(forward, forward)
        own = _own(forward)
        for relay in self._relays.pop(forward, []):
            relay.stop_accepting()
        if inner is not forward:
            for host in (forward.host, own):
                if host is not None and host.socket:
                    remove(Path(host.socket))
        elif own is not None:
            await self._connection.close_forward(replace(forward, host=own))
        await self._connection.close_forward(inner)

    def _inner_path(self, forward: Forward) -> Path:
        numbers = {inner.host.socket for inner in self._open.values()}
        number = 0
        while str(path := self._sockets / f"f{number}.sock") in numbers:
            number += 1
        return path

    async def _relay(self, forward: Forward, inner: Forward) -> None:
        host, own = forward.host, _own(forward)
        listener = listen_unix(Path(host.socket)) if host.socket else listen_inet(host)
        relays = self._relays[forward] = []
        relays.append(await self._start(listener, inner, partial(self._observer, forward)))
        if own is not None:
            with suppress(HostError):  # rdd then uses the socket of clients
                relays.append(await self._start(listen_unix(Path(own.socket)), inner))

    async def _start(
        self, listener: socket.socket, inner: Forward, observe: Observe = lambda: None
    ) -> StreamRelay:
        relay = StreamRelay(listener, partial(self._dial, inner.host.socket), observe)
        await relay.start()
        return relay

    async def _dial(self, path: str) -> socket.socket:
        await self._reachable.wait()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(sock, path)
        except BaseException:
            sock.close()
            raise
        return sock

    def _observer(self, forward: Forward) -> ConnectionObserver | None:
        if self._activity is None:
            return None
        if forward.guest.socket in _DOCKER_SOCKETS:
            if not self._reachable.is_set():  # its first byte is read only once it is connected
                self._activity.touch("a client of the Docker socket")
            return DockerObserver(self._activity)
        return PortObserver(self._activity, str(forward.host))

    async def close(self) -> None:
        """Close all relays."""
        for forward, relays in self._relays.items():
            for relay in relays:
                await relay.close()
            for host in (forward.host, _own(forward)):
                if host is not None and host.socket:
                    remove(Path(host.socket))
        self._relays.clear()


def _own(forward: Forward) -> Endpoint | None:
    """Return rdd's own end of the forward of a Docker socket."""
    if forward.reverse or forward.guest.socket not in _DOCKER_SOCKETS:
        return None
    return Endpoint(socket=str(own_socket(Path(forward.host.socket))))
