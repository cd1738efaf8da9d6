# SPDX-License-Identifier: Apache-2.0
"""The paths beside a Docker socket that exist while its machine runs.

    docker.sock    of clients: what they send counts as activity
    docker.own     of rdd itself: neither counts nor wakes up a paused machine
    docker.raw     the engine's own listener, while the host agent listens on docker.sock

Their names are not longer than that of the socket, because paths of sockets are limited.
"""

from pathlib import Path


def own_socket(docker_socket: Path) -> Path:
    """Return the path of the socket for rdd itself."""
    return docker_socket.with_suffix(".own")


def raw_socket(docker_socket: Path) -> Path:
    """Return where the engine's listener is meanwhile."""
    return docker_socket.with_suffix(".raw")


def socket_for_rdd(docker_socket: Path) -> Path:
    """Return the socket that rdd uses for itself: that of clients if the driver has no other."""
    own = own_socket(docker_socket)
    return own if own.exists() else docker_socket
