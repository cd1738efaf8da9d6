# SPDX-License-Identifier: Apache-2.0
"""Mounts of guests: small files, a large file, and how soon a change reaches a watcher.

    python -m bench.mounts [--quick] [TYPE ...]

Boots the Debian guest once for each mount type (virtiofs, reverse-sshfs; 9p needs a guest kernel
with it) and runs the same commands in the shared directory and, for comparison, on the
guest's own disk. Times are those of the guest without the time of its shell.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.e2e.machine.qemu_world import DEBIAN, World, world

TYPES = ("virtiofs", "reverse-sshfs", "9p")
GUEST = Path(".cache/guest/current/debian").resolve()
_SMALL, _LARGE_MB, _EVENTS = 300, 64, 10
_QUICK = (50, 8, 3)
_MOUNTS = """mountInotify: true
mounts:
- location: "{{.Home}}/shared"
  mountPoint: /shared
  writable: true
"""

# Prints one line "NAME SECONDS" per step. The page cache is dropped before each one.
_STEPS = """
set -e
cd "$1"; count=$2; size=$3
now() { cut -d ' ' -f 1 /proc/uptime; }
step() {
    sync; echo 3 | sudo tee /proc/sys/vm/drop_caches >/dev/null
    began=$(now); "$2"; ended=$(now)
    echo "$1 $(awk "BEGIN { print $ended - $began }")"
}
create() { for i in $(seq $count); do echo "content of a file $i" >f$i; done; }
list() { ls -l . >/dev/null; }
read_all() { cat f* >/dev/null; }
remove() { rm -f f*; }
write_large() { dd if=/dev/zero of=large bs=1M count=$size conv=fsync 2>/dev/null; }
read_large() { dd if=large of=/dev/null bs=1M 2>/dev/null; }
mkdir -p bench; cd bench
step create create; step list list; step read read_all; step remove remove
step write_large write_large; step read_large read_large
rm large
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller files")
    parser.add_argument("types", nargs="*", metavar="TYPE", help=", ".join(TYPES))
    given = parser.parse_args()
    if unknown := set(given.types) - set(TYPES):
        parser.error(f"unknown mount type {min(unknown)!r}; known: {', '.join(TYPES)}")
    sizes = _QUICK if given.quick else (_SMALL, _LARGE_MB, _EVENTS)
    asyncio.run(measure_all(given.types or TYPES[:2], sizes))
    return 0


async def measure_all(types: Iterable[str], sizes: tuple[int, int, int]) -> None:
    count, large_mb, _ = sizes
    sys.stdout.write(f"{count} small files, a file of {large_mb} MiB; times in s, changes in ms\n")
    with tempfile.TemporaryDirectory(prefix="rdd-bench-") as cache:
        for number, kind in enumerate(types):
            async with world(GUEST, Path(cache)) as machines:
                await measure(machines, kind, sizes, with_disk=not number)


async def measure(
    machines: World, kind: str, sizes: tuple[int, int, int], *, with_disk: bool
) -> None:
    """Boot a guest with one mount type and print its figures."""
    await machines.create("vm", f"{DEBIAN}mountType: {kind}\n{_MOUNTS}")
    seen = await machines.start("vm")
    if seen.degraded:
        sys.stdout.write(f"{kind:14} not available: {' '.join(seen.errors)[:200]}\n")
        return
    if with_disk:
        await print_steps(machines, "own disk", "/home", sizes)
    await print_steps(machines, kind, "/shared", sizes)
    delays = await changes(machines, sizes[2])
    sys.stdout.write(
        f"{kind:14} change to event {statistics.median(delays) * 1000:.0f} "
        f"(most {max(delays) * 1000:.0f})\n"
    )


async def print_steps(
    machines: World, name: str, directory: str, sizes: tuple[int, int, int]
) -> None:
    count, large_mb, _ = sizes
    words = ("sudo", "sh", "-s", directory, str(count), str(large_mb))
    output = await machines.shell("vm", *words, stdin=_STEPS.encode(), timeout_s=600)
    steps = ", ".join(f"{step} {s}" for step, s in map(str.split, output.splitlines()))
    sys.stdout.write(f"{name:14} {steps}\n")
    sys.stdout.flush()


async def changes(machines: World, count: int) -> list[float]:
    """Return the seconds from a write here until a watcher in the guest has the event."""
    shared = machines.user_home / "shared"
    (shared / "watched").write_text("")
    # Its output is written here through the mount, too, but only read from the guest's disk.
    watch = "busybox inotifyd - /shared:c >/tmp/events 2>/dev/null &"
    await machines.shell("vm", "sh", "-c", watch)
    found = []
    for number in range(count + 1):
        seen = await _events(machines)
        began = time.monotonic()
        (shared / "watched").write_text(f"{number}\n")
        while await _events(machines) <= seen and time.monotonic() - began < 10:
            pass
        found.append(time.monotonic() - began)
        await asyncio.sleep(1.5)  # batches of changes are a second apart
    return found[1:]  # the first one may precede the watch


async def _events(machines: World) -> int:
    output = await machines.shell("vm", "sh", "-c", "wc -l </tmp/events")
    return int(output or 0)


if __name__ == "__main__":
    sys.exit(main())
