# SPDX-License-Identifier: Apache-2.0
"""The port of this host that leads to the guest's ssh server.

Clients have it in their configurations, so it stays the same from start to start if it is free.
While the guest is suspended, this process holds it: bound, but without a listener.
"""

import socket

from rdd.vm.drivers.qemu.files import QemuMachineState
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import live_process


def choose(
    directory: InstanceDirectory, driver: str, wanted: int, previous: QemuMachineState | None
) -> int:
    """Return the port: the one of the template, the last one, or any."""
    if wanted:
        return wanted
    runs = live_process(directory.pid_file(driver), directory.identity_file(driver))
    if previous is not None and (runs or _is_free(previous.ssh_port)):
        return previous.ssh_port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def hold(port: int) -> socket.socket:
    """Return a socket that is bound to the port, if it is free."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        pass  # another program was faster; the next start selects another port
    return held


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
