# SPDX-License-Identifier: Apache-2.0
"""Readiness notifications to a supervisor (systemd): the protocol of sd_notify(3).

One datagram per message to the socket in NOTIFY_SOCKET. Usually there is none, and failures
are ignored: they must not stop a daemon that works.
"""

import contextlib
import socket


def notify(address: str, message: str) -> None:
    """Send a message such as `READY=1`; do nothing without an address."""
    if not address:
        return
    if address.startswith("@"):  # the abstract namespace of Linux
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        sock.sendall(message.encode())
