# SPDX-License-Identifier: Apache-2.0
"""Cleanup of a machine without an agent: processes first, then their files."""

from contextlib import suppress
from signal import SIGKILL

from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.files import remove
from rdd.host.processes import is_alive, send_signal
from rdd.vm.drivers.qemu import files
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import live_process
from rdd.vm.ssh import LOG, ControlMaster, SshTarget

_KILL_TIMEOUT_S = 5.0


async def cleanup(directory: InstanceDirectory) -> None:
    """Kill what still runs and remove pid files and sockets. Raises HostError."""
    pid_file, identity_file = directory.pid_file(files.NAME), directory.identity_file(files.NAME)
    state = files.read_state(directory)
    processes = [process for process in [live_process(pid_file, identity_file)] if process]
    if state is not None:
        processes += [helper for helper in state.helpers if is_alive(helper)]
    for process in processes:
        if send_signal(process, SIGKILL) and not await ended_within(process, _KILL_TIMEOUT_S):
            raise HostError(f"process {process.pid} of the machine does not end")
    await _end_ssh(directory)
    if state is not None:
        for specification, reverse in state.forwards:
            if specification.startswith("/") and not reverse:
                _remove_socket(specification.partition(":")[0])
    for path in (pid_file, identity_file, directory.path / files.QMP_SOCKET):
        remove(path)
    remove(directory.path / files.SERIAL_SOCKET)
    for path in directory.path.glob("virtiofs-*.sock*"):
        remove(path)


async def _end_ssh(directory: InstanceDirectory) -> None:
    """End an orphaned control master."""
    if not directory.ssh_sock.exists():
        return
    unused = directory.path / "unused"
    target = SshTarget(port=0, user="", identity=unused, control=directory.ssh_sock)
    with suppress(HostError):
        await ControlMaster(target, log=directory.path / LOG).stop()


def _remove_socket(path: str) -> None:
    from pathlib import Path

    with suppress(OSError):
        Path(path).unlink()
