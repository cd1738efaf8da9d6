# SPDX-License-Identifier: Apache-2.0
"""The command line of the emulator, from a template.

Pure functions: `EmulatorOptions` has what depends on the host. File names are relative, because
the emulator runs in the instance directory; this keeps socket paths within the system's limit.

The machine type is `q35`, not `microvm`, which hangs in half of its boots under emulation. A
reboot of the guest ends the emulator and its agent; the controller then restarts both.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

from rdd.vm.cidata import DNS_IP, GATEWAY_IP, GUEST_IP, NETWORK
from rdd.vm.drivers.qemu import files
from rdd.vm.drivers.qemu.accelerator import cpu_model
from rdd.vm.drivers.qemu.disks import SUSPEND_TAG
from rdd.vm.drivers.qemu.memory import DEVICE as BALLOON
from rdd.vm.template.model import Template
from rdd.vm.template.variables import hostname

_MIB = 1 << 20
_TRANSLATION_MIB = 512  # cache for translated code; more does not speed up a boot
_FIRMWARE = {
    "x86_64": (
        "/usr/share/OVMF/OVMF_CODE.fd",
        "/usr/share/OVMF/OVMF_CODE_4M.fd",
        "/usr/share/edk2/x64/OVMF_CODE.4m.fd",
        "/usr/share/edk2-ovmf/x64/OVMF_CODE.fd",
        "/opt/homebrew/share/qemu/edk2-x86_64-code.fd",
        "/usr/local/share/qemu/edk2-x86_64-code.fd",
    ),
    "aarch64": (
        "/usr/share/AAVMF/AAVMF_CODE.fd",
        "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd",
        "/opt/homebrew/share/qemu/edk2-aarch64-code.fd",
        "/usr/local/share/qemu/edk2-aarch64-code.fd",
    ),
}


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A directory of this host that the emulator shares with the guest."""

    kind: str
    """`virtiofs` or `9p`."""
    tag: str
    source: str
    """The socket of a virtiofsd, or a path for 9p."""
    is_writable: bool = False
    security_model: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """The inputs of the command line besides the template."""

    program: Path
    name: str
    accelerator: str
    ssh_port: int
    shares: tuple[SharedDirectory, ...] = ()
    kernel_line: str | None = None
    """The kernel command line of a direct boot; None for a boot loader."""
    has_initrd: bool = False
    firmware: Path | None = None


def mac_address(name: str, directory: Path) -> str:
    """Return the MAC address of the guest: stable, and unique per machine."""
    digits = f"{zlib.crc32(f'{directory}/{name}'.encode()):08x}"
    return f"52:55:55:{digits[0:2]}:{digits[2:4]}:{digits[4:6]}"


def find_firmware(arch: str) -> Path | None:
    """Return the UEFI firmware for guests with a boot loader; None if it is not installed."""
    for name in _FIRMWARE.get(arch, ()):
        if Path(name).exists():
            return Path(name)
    return None


def hardware(template: Template, machine: EmulatorOptions, mac: str) -> list[str]:
    """Return the part of the command line that suspended memory depends on."""
    cpus, arch = template.cpus, template.arch
    memory = template.memory // _MIB  # half of the host's memory may not be a multiple of 1 MiB
    accelerator = machine.accelerator
    if accelerator == "tcg":
        accelerator = f"tcg,thread=multi,tb-size={_TRANSLATION_MIB}"
    words = [
        *("-machine", "q35,vmport=off" if arch == "x86_64" else "virt"),
        *("-accel", accelerator),
        *("-cpu", template.cpu_type.get(arch) or cpu_model(machine.accelerator)),
        *("-smp", f"{cpus},sockets=1,cores={cpus},threads=1"),
        *("-m", f"{memory}M"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-rtc", "base=utc,clock=host"),
        *("-object", "rng-random,id=rng0,filename=/dev/urandom"),
        *("-device", "virtio-rng-pci,rng=rng0"),
        # `memory` describes how it gives memory back.
        "-device",
        f"virtio-balloon-pci,id={BALLOON},free-page-reporting=on,deflate-on-oom=on",
        *("-device", f"virtio-net-pci,netdev=net0,mac={mac}"),
        *("-device", "virtio-blk-pci,drive=disk0,discard=on,bootindex=1"),
        *("-device", "virtio-blk-pci,drive=cidata"),
    ]
    if machine.shares:
        # virtiofsd accesses the guest's memory.
        words += ["-object", f"memory-backend-memfd,id=mem,size={memory}M,share=on"]
        words += ["-numa", "node,memdev=mem"]
    return words


def command(
    template: Template, machine: EmulatorOptions, *, mac: str, resume: bool = False
) -> list[str]:
    """Return the whole command line; `resume` loads the saved memory."""
    words = [str(machine.program), "-name", hostname(machine.name)]
    words += hardware(template, machine, mac)
    words += [
        *("-qmp", f"unix:{files.QMP_SOCKET},server=on,wait=off"),
        "-chardev",
        f"socket,id=serial0,path={files.SERIAL_SOCKET},server=on,wait=off,logfile={files.SERIAL_LOG}",
        *("-serial", "chardev:serial0"),
        "-netdev",
        f"user,id=net0,net={NETWORK},host={GATEWAY_IP},dns={DNS_IP},dhcpstart={GUEST_IP},"
        f"hostfwd=tcp:127.0.0.1:{machine.ssh_port}-:22",
        "-drive",
        f"file={files.DISK},if=none,id=disk0,format=qcow2,discard=unmap,detect-zeroes=unmap",
        *("-drive", f"file={files.CIDATA},if=none,id=cidata,format=raw,readonly=on"),
    ]
    for number, share in enumerate(machine.shares):
        words += _share(share, number)
    if machine.kernel_line is not None:
        words += ["-kernel", files.KERNEL, "-append", machine.kernel_line]
        if machine.has_initrd:
            words += ["-initrd", files.INITRD]
    elif machine.firmware is not None:
        words += ["-drive", f"if=pflash,format=raw,readonly=on,file={machine.firmware}"]
    if resume:
        words += ["-loadvm", SUSPEND_TAG]
    return words


def _share(share: SharedDirectory, number: int) -> list[str]:
    if share.kind == "virtiofs":
        return [
            *("-chardev", f"socket,id=fs{number},path={share.source}"),
            *("-device", f"vhost-user-fs-pci,queue-size=1024,chardev=fs{number},tag={share.tag}"),
        ]
    path = share.source.replace(",", ",,")
    options = f"local,mount_tag={share.tag},path={path},security_model={share.security_model}"
    return ["-virtfs", options if share.is_writable else f"{options},readonly=on"]
