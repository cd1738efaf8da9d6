# SPDX-License-Identifier: Apache-2.0
"""The port of this machine on which the Kubernetes API will appear.

It is chosen long before anybody binds it: the virtual machine has to be made first. Until
that machine starts, the port is held by a socket that listens, so that nobody else gets
it; right before the start it is let go, or, after a restart of the daemon, tried.
"""

import socket

from rdd.host.errors import HostError
from rdd.host.sockets import listen_on_loopback


class HeldPort:
    """A port of 127.0.0.1 that is kept for the virtual machine."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port that is held; 0 if none is."""
        return self._socket.getsockname()[1] if self._socket is not None else 0

    def choose(self, desired: int) -> int:
        """Hold a port: the desired one, or any that is free. Raises HostError."""
        if self._socket is None:
            self._socket = listen_on_loopback(desired)
        return self.port

    def is_free(self, port: int) -> bool:
        """Whether a port can be bound now; one that is held can."""
        if self.port == port:
            return True
        try:
            taken = listen_on_loopback(port)
        except HostError:
            return False
        with taken:
            return bool(taken.getsockname()[1] == port)

    def release(self) -> None:
        """Leave the port to the virtual machine."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
