# SPDX-License-Identifier: Apache-2.0
"""Listening sockets that are bound once and kept.

A port that is probed, closed and bound again later can be taken in between, so the socket that
finds a free port is the one that serves.
"""

import errno
import socket

from rdd.host.errors import HostError

BACKLOG = 512


def listen_on_loopback(*ports: int) -> socket.socket:
    """Listen on the first free port of 127.0.0.1, on any if all are taken. Raises HostError."""
    for port in ports:
        try:
            return _listen(port)
        except OSError as error:
            # EACCES: a port below 1024, or one that a policy reserves.
            if port == 0 or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise HostError.from_os(f"listen on 127.0.0.1:{port}", error) from error
    try:
        return _listen(0)
    except OSError as error:
        raise HostError.from_os("listen on 127.0.0.1", error) from error


def _listen(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
