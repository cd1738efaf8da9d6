# SPDX-License-Identifier: Apache-2.0
"""The Docker socket of this host: dockerd's own listener, or a relay of the host agent.

Usually dockerd listens there itself, so clients survive a replaced agent. While idle detection
is on, the agent must see what clients send: it renames dockerd's listener, listens under its
name, and relays. Both changes are one rename(2): at no time does a client find no listener.

Clients that connected to dockerd before are not observed. Until they disconnect, the machine is
not paused: the kernel lists their connections under the name of dockerd's listener, and those of
the relay under another one.

rdd itself uses the engine's listener in the private /run, by a link (`docker.own`).
"""

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.vm.forwarding.sockets import listen_unix
from rdd.vm.forwarding.streams import StreamRelay
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.docker_paths import own_socket, raw_socket
from rdd.vm.idle.docker_requests import DockerObserver

_CONNECTED = "03"  # SS_CONNECTED in /proc/net/unix


class ClientSocket:
    """One Docker socket of a machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = raw_socket(path)
        self._own = own_socket(path)
        self._relays: list[StreamRelay] = []
        self._is_relayed = False

    def link_own(self, inside: Path) -> None:
        """Create the path for rdd itself. Raises HostError."""
        temporary = self._own.with_suffix(".tmp")
        try:
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(inside)
            temporary.replace(self._own)
        except OSError as error:
            raise HostError.from_os(f'create the link "{self._own}"', error) from error

    def restore(self) -> None:
        """Let clients reach dockerd directly again. Raises HostError."""
        self._is_relayed = False
        for relay in self._relays:
            relay.stop_accepting()  # open connections stay
        if not self._raw.exists():
            return
        try:
            self._raw.replace(self._path)
        except OSError as error:
            raise HostError.from_os(f'restore "{self._path}"', error) from error

    async def relay(self, activity: Activity) -> None:
        """Listen in dockerd's place and observe clients. Raises HostError."""
        if self._is_relayed:
            return
        temporary = self._path.with_suffix(".new")
        listener = listen_unix(temporary)
        relay = StreamRelay(listener, self._dial, lambda: DockerObserver(activity))
        try:
            await relay.start()
            if not self._raw.exists():
                os.link(self._path, self._raw)
            temporary.replace(self._path)
        except OSError as error:
            await relay.close()
            remove(temporary)
            raise HostError.from_os(f'listen on "{self._path}"', error) from error
        self._relays.append(relay)
        self._is_relayed = True

    async def _dial(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(sock, str(self._own))
        except BaseException:
            sock.close()
            raise
        return sock

    def unobserved(self, pid: int) -> int:
        """Return the number of connections to dockerd's listener; `pid` is in its network."""
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/net/unix").read_text().splitlines()
            words = (line.split() for line in lines)
            return sum(w[5] == _CONNECTED and w[-1] == str(self._path) for w in words)
        return 0

    async def close(self, *, is_final: bool) -> None:
        """Stop relaying; `is_final` removes the paths, too."""
        if is_final:
            if self._is_relayed:
                remove(self._path)
            remove(self._raw)
            remove(self._own)
        else:
            self.restore()
        for relay in self._relays:
            await relay.close()
        self._relays.clear()
