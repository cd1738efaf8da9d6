# SPDX-License-Identifier: Apache-2.0
"""Run a command without network: only the loopback interface, which is up.

The command gets a network namespace of its own with unshare(2), which needs root (or
CAP_SYS_ADMIN). Where that is refused it runs with the machine's network and a note: the suite
needs no network either way, this only proves it.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def leave_network() -> None:
    """Move this process to a network namespace with nothing but loopback. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


if __name__ == "__main__":
    try:
        leave_network()
        sys.stdout.write("networking is off for this run\n")
    except (OSError, AttributeError) as error:
        sys.stdout.write(f"networking stays on for this run (unshare: {error})\n")
    sys.stdout.flush()
    os.execvp(sys.argv[1], sys.argv[1:])
