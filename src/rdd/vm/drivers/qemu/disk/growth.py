# SPDX-License-Identifier: Apache-2.0
"""Growth of a running guest's disk: first the disk, then partition and file system in the guest.

The emulator reports the new size to the guest at once. What fails in the guest (a disk with
another layout, a missing program) is the error; the disk stays grown, and the guest's own
boot may grow the rest.
"""

from typing import Any

from rdd.base.sizes import binary
from rdd.host.errors import HostError
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.ssh import SshError

DRIVE = "disk0"
_GROW_S = 120.0

# The first argument is the size in sectors. The first virtio disk is the machine's. Only the
# last partition can grow, which growpart refuses for others.
_SCRIPT = r"""
size=$1 disk=vda tries=100
until [ "$(cat /sys/class/block/$disk/size)" -ge "$size" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "the guest does not see the new size" >&2; exit 1; }
    sleep 0.1 2>/dev/null || sleep 1
done
grown=
while read -r device point type _; do
    name=$(readlink -f "$device") name=${name##*/}
    case $name in
    "$disk") ;;
    "$disk"[0-9]*)
        command -v growpart >/dev/null || { echo "growpart is missing in the guest" >&2; exit 1; }
        output=$(growpart /dev/$disk "${name#"$disk"}" 2>&1) || case $output in
        NOCHANGE*) ;;
        *) continue ;;
        esac
        ;;
    *) continue ;;
    esac
    case " $grown " in *" $name "*) continue ;; esac
    case $type in
    ext*) resize2fs "/dev/$name" >/dev/null || exit 1 ;;
    xfs) xfs_growfs "$point" >/dev/null || exit 1 ;;
    btrfs) btrfs filesystem resize max "$point" >/dev/null || exit 1 ;;
    *) continue ;;
    esac
    grown="$grown $name"
done </proc/mounts
[ -n "$grown" ] || { echo "no file system of the disk can grow while it is mounted" >&2; exit 1; }
"""


async def disk_size(qmp: Qmp) -> int:
    """Return the bytes of a running machine's disk. Raises HostError."""
    return int((await _drive(qmp))["image"]["virtual-size"])


async def node_of(qmp: Qmp) -> str:
    """Return the name of the block node of a running machine's disk. Raises HostError."""
    return str((await _drive(qmp))["node-name"])


async def _drive(qmp: Qmp) -> dict[str, Any]:
    for device in await qmp.execute("query-block"):
        if device["device"] == DRIVE:
            return dict(device["inserted"])
    raise HostError(f"the machine has no drive {DRIVE}")


async def grow(qmp: Qmp, connection: GuestConnection, size_bytes: int) -> None:
    """Grow the disk of a running guest and its file systems. Raises HostError."""
    present = await disk_size(qmp)
    if size_bytes < present:
        raise HostError(f"the disk has {binary(present)} and cannot shrink")
    if size_bytes > present:
        await qmp.execute("block_resize", {"node-name": await node_of(qmp), "size": size_bytes})
    line = f"sudo -n sh -s {size_bytes // 512}"
    try:
        answer = await connection.run(line, script=_SCRIPT, timeout_s=_GROW_S)
    except SshError as error:
        raise HostError(f"the guest cannot be asked to use its larger disk: {error}") from error
    if answer.status != 0:
        reason = answer.errors.strip() or f"exit status {answer.status}"
        raise HostError(f"the disk has grown, its file system in the guest has not: {reason}")
