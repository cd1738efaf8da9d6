# SPDX-License-Identifier: Apache-2.0
"""The files of a qemu machine, besides those of every machine.

Files that Lima has, too, keep its names. `qemu.json` is the state that one agent leaves to the
next: the ssh port, the id of this boot, the helper processes beside the emulator.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.log_tail import last_lines

NAME = "qemu"
IMAGE = "image"  # the guest image; never written to
DISK = "disk"  # qcow2 overlay on the image
KERNEL = "kernel"
KERNEL_LINE = "kernel.cmdline"
INITRD = "initrd"
CIDATA = "cidata.iso"
QMP_SOCKET = "qmp.sock"
SERIAL_SOCKET = "serial.sock"
SERIAL_LOG = "serial.log"
LOG = "qemu.log"  # output of the emulator
STATE = "qemu.json"
SUSPENDED = "suspended.json"  # exists while the disk contains saved memory


@dataclass(frozen=True, slots=True)
class QemuMachineState:
    """The state of one run, for the agent that adopts it."""

    ssh_port: int
    instance_id: str
    forwards: tuple[tuple[str, bool], ...] = ()
    """The forwards of the control master: specification, and whether reverse."""
    helpers: tuple[Identity, ...] = field(default=())
    """Processes that serve mounts; they end with the emulator."""


def read_state(directory: InstanceDirectory) -> QemuMachineState | None:
    """Return the state of the last agent; None if it is missing or damaged."""
    try:
        data: dict[str, Any] = json.loads(read_text(directory.path / STATE) or "null")
        return QemuMachineState(
            int(data["ssh_port"]),
            str(data["instance_id"]),
            tuple((str(text), bool(reverse)) for text, reverse in data["forwards"]),
            tuple(Identity(int(one["pid"]), str(one["started"])) for one in data["helpers"]),
        )
    except (ValueError, KeyError, TypeError, HostError):
        return None


def write_state(directory: InstanceDirectory, state: QemuMachineState) -> None:
    """Write the state. Raises HostError."""
    text = json.dumps(asdict(state)) + "\n"
    write_atomically(directory.path / STATE, text, durable=False)


def tail(path: Path, lines: int = 3) -> str:
    """Return the last lines of a log as one line, for an error message."""
    found = [line.strip() for line in last_lines(path, max_bytes=4096) if line.strip()]
    return " / ".join(found[-lines:])
