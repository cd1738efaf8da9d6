# SPDX-License-Identifier: Apache-2.0
"""Suspended machines: their memory is saved in their disk, and the next start resumes it.

The memory is an internal snapshot of the disk. Only the same emulator can load it, into a
machine of the same kind. `suspended.json` records that kind: after a change of the template,
processor, accelerator or qemu the memory is useless, and the machine boots instead.

The file is removed before the memory is loaded. From then on the guest writes to its disk, and
loading the same memory again would revert the disk, too, and lose these writes. A guest that
runs has no use for the file either: an agent that was killed after it saved the memory, or while
it loaded it, leaves file and memory to the next one, which removes both (`forget`).
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically
from rdd.vm.drivers.qemu import disks, files
from rdd.vm.drivers.qemu.disk.growth import node_of
from rdd.vm.drivers.qemu.qmp import Qmp, QmpError

SAVE_S = 120.0
_DIFFERENCES = {
    "template": "the template has changed",
    "accelerator": "the accelerator has changed",
    "cpu": "the processor model has changed",
    "qemu": "the version of qemu has changed",
    "hardware": "rdd has changed the virtual hardware",
}


@dataclass(frozen=True, slots=True)
class MachineKind:
    """The properties that must be equal for memory to be loadable."""

    template: str
    accelerator: str
    cpu: str
    qemu: str
    hardware: str

    def difference(self, other: "MachineKind") -> str:
        """Return why memory of this kind does not fit the other; empty if it fits."""
        ours, theirs = asdict(self), asdict(other)
        return ", ".join(_DIFFERENCES[key] for key in ours if ours[key] != theirs[key])


@dataclass(frozen=True, slots=True)
class Suspended:
    kind: MachineKind
    instance_id: str
    shares: tuple[str, ...] = ()
    """Mount points that were unmounted for it and are mounted again afterwards."""


def processor() -> str:
    """Return the processor of this host, which hardware virtualisation exposes to the guest."""
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
    """Return the suspended machine; None if the file is missing or damaged."""
    try:
        data = json.loads(read_text(path) or "null")
        return Suspended(
            MachineKind(**data["kind"]), str(data["instance_id"]), tuple(data.get("shares", ()))
        )
    except (ValueError, KeyError, TypeError, HostError):
        return None


def write(path: Path, suspended: Suspended) -> None:
    """Record that memory is saved. Raises HostError."""
    write_atomically(path, json.dumps(asdict(suspended)) + "\n")


def clear(path: Path) -> None:
    """Remove the record. Raises HostError."""
    remove(path)


async def usable(
    directory: Path, kind: MachineKind, warn: Callable[[str], None]
) -> Suspended | None:
    """Return the saved memory if it fits; discard it otherwise. Raises HostError."""
    path = directory / files.SUSPENDED
    if not path.exists():
        return None
    suspended = read(path)
    reason = "it cannot be read"
    if suspended is not None:
        reason = suspended.kind.difference(kind)
        if not reason:
            return suspended
    warn(f"the suspended state is discarded, the machine boots: {reason}")
    clear(path)
    await disks.discard_memory(directory / files.DISK)
    return None


async def save(qmp: Qmp, directory: Path, suspended: Suspended) -> None:
    """Stop the CPUs and save the memory in the disk. Raises HostError; the guest then runs on."""
    node = await node_of(qmp)
    await qmp.execute("stop")
    try:
        await _delete(qmp, node)
        await qmp.run_job(
            "snapshot-save",
            {"tag": disks.SUSPEND_TAG, "vmstate": node, "devices": [node]},
            timeout_s=SAVE_S,
        )
        write(directory / files.SUSPENDED, suspended)
    except BaseException:
        with suppress(HostError):
            await qmp.execute("cont")
        raise


async def forget(qmp: Qmp, directory: Path) -> None:
    """Delete the saved memory of a guest that runs. Raises HostError."""
    clear(directory / files.SUSPENDED)
    await _delete(qmp, await node_of(qmp))


async def _delete(qmp: Qmp, node: str) -> None:
    """Delete the saved memory from the disk of a guest, if there is any."""
    with suppress(QmpError):
        job = {"tag": disks.SUSPEND_TAG, "devices": [node]}
        await qmp.run_job("snapshot-delete", job, timeout_s=SAVE_S)
