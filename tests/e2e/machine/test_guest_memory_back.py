# SPDX-License-Identifier: Apache-2.0
"""Memory that a guest no longer needs comes back to this host, and only by the balloon."""

from tests.e2e.machine.qemu_world import World, eventually

from rdd.vm.drivers.qemu.memory import NO_BALLOON, resident_bytes
from rdd.vm.memory_report import MemoryReport

MIB = 1 << 20
MACHINE = "vmType: qemu\ncpus: 1\nmemory: 1GiB\ndisk: 2GiB\n"
TOUCHED_MIB = 600
DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
UNBIND = f"cd {DRIVER}; for one in virtio*; do echo $one >unbind; echo $one; done"
ANONYMOUS = f"dd if=/dev/zero of=/dev/null bs={TOUCHED_MIB}M count=1 2>&1"
PAGE_CACHE = f"dd if=/dev/vda of=/dev/null bs=1M count={TOUCHED_MIB} 2>&1"


def memory(small: World) -> MemoryReport:
    return small.machines.phase("vm").memory or MemoryReport()


async def as_root(small: World, line: str) -> str:
    return await small.shell("vm", "sudo", "sh", "-c", line)


async def test_guest_gives_back_what_it_no_longer_needs(small: World) -> None:
    directory = await small.create("vm", MACHINE)
    await small.start("vm")
    process = directory.driver_process()
    assert process is not None

    def held() -> int:
        return resident_bytes(process.pid)

    base = held()
    # Without the mechanism this host keeps everything that was touched.
    device = await as_root(small, UNBIND)
    await as_root(small, ANONYMOUS)
    await as_root(small, PAGE_CACHE)
    await eventually(lambda: memory(small).problem == NO_BALLOON)
    kept = held() - base
    assert kept >= 0.9 * TOUCHED_MIB * MIB

    # With it, what processes have freed and the page cache come back.
    await as_root(small, f"echo {device} >{DRIVER}/bind")
    await eventually(lambda: held() - base <= 0.2 * kept)
    await eventually(lambda: memory(small).used_bytes > 0 and not memory(small).problem)
    assert memory(small).host_bytes - base <= 0.2 * kept

    # Afterwards the guest can allocate as much as before, and that comes back, too.
    assert "0+1 records" not in await as_root(small, ANONYMOUS)
    await eventually(lambda: held() - base <= 0.2 * kept)
