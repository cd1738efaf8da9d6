# SPDX-License-Identifier: Apache-2.0
"""Machines whose memory is kept in their disk, to go on where they stopped.

The memory is an internal snapshot of the disk, and can be loaded only by the same emulator into
a machine of the same kind. `suspended.json` says what kind it was: a changed template, processor,
accelerator or qemu makes it worthless, and the machine boots instead.

It is taken away before the memory is loaded. From then on the guest writes to its disk, and
loading the same memory once more would put back the disk too: what was written would be lost.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically

_WORDS = {
    "template": "the template has changed",
    "accelerator": "the accelerator is another one",
    "cpu": "the processor model is another one",
    "qemu": "qemu has another version",
    "hardware": "rdd describes the machine differently now",
}


@dataclass(frozen=True, slots=True)
class MachineKind:
    """All that must be the same for memory to fit."""

    template: str
    accelerator: str
    cpu: str
    qemu: str
    hardware: str

    def difference(self, other: "MachineKind") -> str:
        """Why memory of this kind does not fit a machine of the other; empty if it does."""
        ours, theirs = asdict(self), asdict(other)
        return ", ".join(_WORDS[key] for key in ours if ours[key] != theirs[key])


@dataclass(frozen=True, slots=True)
class Suspended:
    """A machine that waits to go on."""

    kind: MachineKind
    instance_id: str
    shares: tuple[str, ...] = ()
    """Mount points that were taken away for it and are mounted again afterwards."""


def processor() -> str:
    """The processor of this machine; with hardware virtualisation the guest sees it."""
    text = ""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        pass
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


def read(path: Path) -> Suspended | None:
    """What is suspended; None if nothing is, or what cannot be read."""
    try:
        data = json.loads(read_text(path) or "null")
        return Suspended(
            MachineKind(**data["kind"]), str(data["instance_id"]), tuple(data.get("shares", ()))
        )
    except (ValueError, KeyError, TypeError, HostError):
        return None


def write(path: Path, suspended: Suspended) -> None:
    """Say that memory is kept. Raises HostError."""
    write_atomically(path, json.dumps(asdict(suspended)) + "\n")


def take(path: Path) -> None:
    """Say that it is not any more. Raises HostError."""
    remove(path)
