# SPDX-License-Identifier: Apache-2.0
"""The host port of the Kubernetes API.

It is chosen long before it is bound: the virtual machine has to be created first. Until the
machine starts, a listening socket reserves the port; right before the start it is released,
or, after a restart of the daemon, probed.
"""

import socket

from rdd.host.errors import HostError
from rdd.host.sockets import listen_on_loopback


class PortReservation:
    """A port of 127.0.0.1 that is reserved for the virtual machine."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The reserved port; 0 without one."""
        return self._socket.getsockname()[1] if self._socket is not None else 0

    def choose(self, desired: int) -> int:
        """Reserve the desired port, or any free one. Raises HostError."""
        if self._socket is None:
            self._socket = listen_on_loopback(desired)
        return self.port

    def is_free(self, port: int) -> bool:
        """Return whether a port can be bound now; the reserved one can."""
        if self.port == port:
            return True
        try:
            probe = listen_on_loopback(port)
        except HostError:
            return False
        with probe:
            return bool(probe.getsockname()[1] == port)

    def release(self) -> None:
        """Release the port."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
