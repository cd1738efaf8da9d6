# SPDX-License-Identifier: Apache-2.0
"""Memory that a guest gives back: what this host holds before, with and without the mechanism.

    python -m bench.guest_memory [MIB]

Boots the Debian guest (`make guest-image`) with 1 GiB more than MIB (3072), touches MIB as memory
of a process and then as page cache, first with an unbound balloon driver, then with it. Prints a
line of JSON: what the emulator holds of the guest's memory in MiB at the start, right after each,
and a minute later; and the share that came back.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from tests.e2e.machine.qemu_world import world

from rdd.vm.drivers.qemu.memory import resident_bytes

_GUEST = Path(__file__).parents[1] / ".cache/guest/current/debian"
_DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
_UNBIND = f"cd {_DRIVER}; for one in virtio*; do echo $one >unbind; echo $one; done"
_MINUTE_S = 60.0
_BOOT_AND_TOUCH_S = 600.0


async def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 3072
    text = f"vmType: qemu\ncpus: 2\nmemory: {size + 1024}MiB\ndisk: {size + 5000}MiB\n"
    kinds = {
        "anonymous": f"dd if=/dev/zero of=/dev/null bs={size}M count=1",
        "page cache": f"dd if=/dev/vda of=/dev/null bs=1M count={size}",
    }
    async with world(_GUEST, Path.home() / ".cache/rdd") as made:
        directory = await made.create("vm", text)
        await made.start("vm")
        process = directory.driver_process()
        assert process is not None

        def held() -> int:
            return resident_bytes(process.pid) >> 20

        async def as_root(line: str) -> str:
            return await made.shell("vm", "sudo", "sh", "-c", line, timeout_s=_BOOT_AND_TOUCH_S)

        async def measure(line: str) -> dict[str, float]:
            await as_root("sync; echo 3 >/proc/sys/vm/drop_caches")
            base, began_s = held(), time.monotonic()
            await as_root(line)
            touched, touched_s = held(), time.monotonic()
            found = {"before": base, "touched": touched, "touching_s": touched_s - began_s}
            lowest_s = 0.0
            while (passed_s := time.monotonic() - touched_s) < _MINUTE_S:
                await asyncio.sleep(1)
                if not lowest_s and touched - held() >= 0.8 * (touched - base):
                    lowest_s = passed_s
            found["after a minute"] = held()
            found["back_percent"] = round((touched - held()) / max(1, touched - base) * 100)
            found["80 percent after_s"] = round(lowest_s, 1)
            return found

        found: dict[str, object] = {"load": os.getloadavg()[0], "MiB": size}
        for name, line in kinds.items():
            found[name] = await measure(line)
        device = await as_root(_UNBIND)
        for name, line in kinds.items():
            found[f"{name}, without"] = await measure(line)
        await as_root(f"echo {device} >{_DRIVER}/bind")
        found["load at the end"] = os.getloadavg()[0]
        print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
