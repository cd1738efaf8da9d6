# SPDX-License-Identifier: Apache-2.0
"""Listening sockets of this host, opened only if no other process uses the address.

The file of a unix socket outlives its owner. A socket that refuses connections is stale and
replaced; one that accepts them belongs to a live process, which the error names. New sockets
are accessible to their owner only (mode 0600).
"""

import contextlib
import ipaddress
import os
import socket
import stat
import struct
import sys
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Endpoint

PATH_LIMIT_BYTES = (
    107 if sys.platform == "linux" else 103
)  # one less than the field, which ends with NUL
BACKLOG = 128
_CONNECT_TIMEOUT_S = 1.0


class SocketInUse(HostError):
    """Another process listens on a unix socket."""


def listen_unix(path: Path) -> socket.socket:
    """Return a listening unix socket, mode 0600. Raises SocketInUse, HostError."""
    check_length(path)
    clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise HostError.from_os(f'listen on "{path}"', error) from error
    return listener


def check_length(path: Path) -> None:
    """Raise HostError if a path is too long for a unix socket."""
    length = len(os.fsencode(path))
    if length > PATH_LIMIT_BYTES:
        raise HostError(
            f'the socket path "{path}" is too long: {length} bytes, the limit is '
            f"{PATH_LIMIT_BYTES}; use a shorter home directory or instance name"
        )


def clear_stale(path: Path) -> None:
    """Remove a stale socket. Raises SocketInUse, HostError if the path is in use."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError.from_os(f'use the socket "{path}"', error) from error
    if not stat.S_ISSOCK(mode):
        raise HostError(f'"{path}" exists and is not a socket; move it elsewhere')
    holder = listening_process(path)
    if holder is not None:
        raise SocketInUse(f'the socket "{path}" is in use by {holder}; end it first')
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def listening_process(path: Path) -> str | None:
    """Return the process that listens on a unix socket, e.g. `process 12 (dockerd)`."""
    if len(os.fsencode(path)) > PATH_LIMIT_BYTES:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        except OSError:  # its queue is full: a process listens
            return "another process"
        return _peer(probe)


def _peer(probe: socket.socket) -> str:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return "another process"
    pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, option, 12))
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid}" if pid else "a process in another namespace"
    return f"process {pid} ({name})"


def has_ipv6() -> bool:
    """Return whether this host can listen on IPv6 addresses."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def listen_inet(endpoint: Endpoint, *, datagrams: bool = False) -> socket.socket:
    """Return a socket bound to an address of this host; a stream socket also listens.

    Raises OSError.
    """
    is_v6 = ipaddress.ip_address(endpoint.ip).version == 6
    kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
    listener = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, kind)
    try:
        if is_v6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if not datagrams:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((endpoint.ip, endpoint.port))
        if not datagrams:
            listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
