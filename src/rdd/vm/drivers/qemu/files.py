# SPDX-License-Identifier: Apache-2.0
"""The files of a machine that qemu runs, beside those every machine has.

Those Lima knows keep its names. `qemu.json` is what one agent leaves for the next: the port,
the id of this boot, the helpers that run beside the emulator.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory

NAME = "qemu"
IMAGE = "image"  # what the machine was made from; never written to
DISK = "disk"  # qcow2, what differs from the image
KERNEL = "kernel"
KERNEL_LINE = "kernel.cmdline"
INITRD = "initrd"
CIDATA = "cidata.iso"
QMP_SOCKET = "qmp.sock"
SERIAL_SOCKET = "serial.sock"
SERIAL_LOG = "serial.log"
LOG = "qemu.log"  # what the emulator says
STATE = "qemu.json"
SUSPENDED = "suspended.json"  # the machine's memory is kept in its disk, and of what kind it was


@dataclass(frozen=True, slots=True)
class QemuMachineState:
    """One run of a machine, for the agent that takes it over."""

    ssh_port: int
    instance_id: str
    forwards: tuple[tuple[str, bool], ...] = ()
    """What the control master carries: specification, and whether in reverse."""
    helpers: tuple[Identity, ...] = field(default=())
    """Processes that share directories; they end with the emulator."""


def read_state(directory: InstanceDirectory) -> QemuMachineState | None:
    """What the last agent left; None if nothing that can be read."""
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
    """Keep it. Raises HostError."""
    text = json.dumps(asdict(state)) + "\n"
    write_atomically(directory.path / STATE, text, durable=False)


def tail(path: Path, lines: int = 3) -> str:
    """The last lines of a log in one, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    found = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(found[-lines:])
