# SPDX-License-Identifier: Apache-2.0
"""Selection of the accelerator by a trial boot, once per host.

`/dev/kvm` may open, create a machine, and still never boot a guest, or do so more slowly than
plain emulation (in a machine that is itself emulated). So each candidate boots a boot sector of
a few bytes: it counts to a hundred million, writes to the serial port and powers the machine
off. The fastest candidate that finishes wins. The result is cached for the same emulator,
kernel and architecture; `RDD_QEMU_ACCEL` overrides it.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rdd.host.commands import run_blocking
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.vm.drivers.qemu.programs import version

VARIABLE = "RDD_QEMU_ACCEL"
KNOWN = ("kvm", "hvf", "tcg")
CACHE_FILE = "qemu-accelerator.json"
_TIMEOUT_S = 6.0  # emulation takes a third of a second
_EXIT_STATUS = 33  # isa-debug-exit turns the written 16 into 2 * 16 + 1
_SECTOR_BYTES = 512
_DISK_BYTES = 1 << 20  # the BIOS skips a disk of one sector

_CODE = bytes(
    [
        *(0xFA,),  # cli
        *(0x66, 0xB9, 0x00, 0xE1, 0xF5, 0x05),  # mov ecx, 100000000
        *(0x66, 0x49),  # dec ecx
        *(0x75, 0xFC),  # jnz back
        *(0xBA, 0xF8, 0x03),  # mov dx, 0x3f8, the serial port
        *(0xB0, 0x52, 0xEE),  # mov al, 'R'; out dx, al
        *(0xBA, 0xF4, 0x00),  # mov dx, 0xf4, isa-debug-exit
        *(0xB0, 0x10, 0xEE),  # mov al, 16; out dx, al
        *(0xF4, 0xEB, 0xFD),  # hlt, forever
    ]
)


def boot_disk() -> bytes:
    """Return a disk image with the boot sector of the trial."""
    return (_CODE.ljust(_SECTOR_BYTES - 2, b"\0") + b"\x55\xaa").ljust(_DISK_BYTES, b"\0")


async def choose(program: Path, environment: Mapping[str, str], cache: Path) -> str:
    """Return the accelerator for this host. Raises HostError for an invalid override."""
    if wanted := environment.get(VARIABLE):
        if wanted not in KNOWN:
            raise HostError(f'{VARIABLE}="{wanted}" is not one of {", ".join(KNOWN)}')
        return wanted
    candidates = _candidates(program)
    if not candidates:
        return "tcg"
    key = await _key(program)
    if (cached := _cached(cache, key)) in KNOWN:
        return cached
    times = {name: await trial(program, name) for name in (*candidates, "tcg")}
    usable = {name: taken for name, taken in times.items() if taken is not None}
    # If not even emulation finishes, the host is overloaded.
    best = min(usable, key=lambda name: usable[name]) if usable else "tcg"
    with suppress(HostError, OSError):  # the cache is optional
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {"key": key, "accelerator": best, "seconds": times}
        write_atomically(cache, json.dumps(record) + "\n", durable=False)
    return best


def cpu_model(accelerator: str) -> str:
    """Return the CPU model of the guest: the most capable one."""
    return "max" if accelerator == "tcg" else "host"


def _candidates(program: Path) -> list[str]:
    """Return hardware accelerators for the same architecture."""
    machine = os.uname().machine.replace("arm64", "aarch64")
    if not program.name.endswith(machine):
        return []
    if sys.platform == "darwin":
        return ["hvf"]
    return ["kvm"] if os.access("/dev/kvm", os.R_OK | os.W_OK) else []


async def _key(program: Path) -> str:
    return f"{program} {await version(program)} {os.uname().release} {os.uname().machine}"


def _cached(cache: Path, key: str) -> str:
    try:
        record = json.loads(read_text(cache) or "null")
        return str(record["accelerator"]) if record["key"] == key else ""
    except (ValueError, KeyError, TypeError, HostError):
        return ""


async def trial(program: Path, accelerator: str) -> float | None:
    """Return the duration of a trial boot in seconds; None if it fails."""
    return await asyncio.to_thread(_trial, program, accelerator)


def _trial(program: Path, accelerator: str) -> float | None:
    if not program.name.endswith("x86_64"):
        return 0.0  # the boot sector is for a PC; no trial elsewhere
    with tempfile.TemporaryDirectory(prefix="rdd-probe-") as folder:
        disk = Path(folder) / "disk"
        disk.write_bytes(boot_disk())
        started = time.monotonic()
        try:
            done = run_blocking(
                program,
                *("-machine", "q35", "-accel", accelerator, "-cpu", cpu_model(accelerator)),
                *("-m", "64", "-nodefaults", "-display", "none", "-no-reboot"),
                *("-serial", f"file:{folder}/serial"),
                *("-device", "isa-debug-exit,iobase=0xf4,iosize=4"),
                *("-drive", f"file={disk},format=raw,if=none,id=disk"),
                *("-device", "virtio-blk-pci,drive=disk,bootindex=0"),
                timeout_s=_TIMEOUT_S,
            )
        except HostError:
            return None
        if done.status != _EXIT_STATUS or (Path(folder) / "serial").read_bytes() != b"R":
            return None
        return round(time.monotonic() - started, 3)
