# SPDX-License-Identifier: Apache-2.0
"""What a guest reports by itself: a loop in the guest, a reader here.

A script in the guest scans its sockets every second and writes changes. Every few seconds it
writes a sign of life, by whose absence a guest that hangs is noticed, four times a minute the space
of its file systems and once the time. When containers start or end, it lists which shared
directories they mount. Writing also ends the loop when its reader has gone.
Container engines listen in the guest on published ports, so they need no special treatment. UDP
is not scanned: ssh cannot forward it.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

from rdd.host.commands import start_process
from rdd.vm.drivers.protocol import Listener
from rdd.vm.forwarding.proc_net import decode_address

_RECONNECT_S = 1.0
END = "."
ALIVE = "alive"
DISK, MOUNTED = "disk", "mounted"

# A single awk process polls the tables; only `sleep` is started every second: process starts
# are expensive in an emulated guest.
LOOP = r"""exec awk 'BEGIN {
    files = split("/proc/net/tcp /proc/net/tcp6", names)
    old = "nothing yet"
    for (count = 0; 1; count++) {
        new = ""
        for (i = 1; i <= files; i++) {
            while ((getline < names[i]) > 0) if ($4 == "0A") new = new $2 "\n"
            close(names[i])
        }
        if (new != old) { printf "%s.\n", new; old = new }
        if (count % 3 == 0) {
            print "alive"
            overlays = ""
            while ((getline line < "/proc/mounts") > 0)
                if (line ~ /^overlay /) overlays = overlays line
            close("/proc/mounts")
            # A container has its mounts after its file system, when emulated up to 20 s later.
            looks = overlays != known ? 10 : looks - 1
            known = overlays
            if (looks > 0 || count == 0) {
                mounts = ""
                split("", seen)
                while (("ls -d /proc/[0-9]*" | getline path) > 0) {
                    path = path "/mountinfo"
                    is_container = 0
                    while ((getline line < path) > 0) {
                        split(line, m, " ")
                        rest = substr(line, index(line, " - ") + 3)
                        split(rest, r, " ")
                        if (m[5] == "/") is_container = r[1] == "overlay"
                        if (!is_container || r[1] !~ /^(virtiofs|9p|fuse.sshfs)$/) continue
                        if (!seen[r[2] " " m[4]]++) mounts = mounts r[2] " " m[4] "|"
                    }
                    close(path)
                }
                close("ls -d /proc/[0-9]*")
                if (mounts != last || count == 0) print "mounted " mounts
                last = mounts
            }
        }
        if (count % 60 == 0) { "date +%s" | getline now; close("date +%s"); print "clock " now }
        if (count % 15 == 0) {
            points = ""
            split("", seen)
            while ((getline line < "/proc/mounts") > 0) {
                split(line, m, " ")
                if (m[1] !~ /^.dev/ || m[2] !~ /^[A-Za-z0-9._\/-]+$/ || seen[m[1]]++) continue
                if (m[3] ~ /^(ext[34]|xfs|btrfs|f2fs)$/) points = points " " m[2]
            }
            close("/proc/mounts")
            if (points != "") {
                df = "df -Pk" points
                printf "disk "
                while ((df | getline line) > 0) if (line ~ /^.dev/) printf "%s|", line
                close(df)
                print ""
            }
        }
        fflush()
        system("sleep 1")
    }
}'"""


def parse(lines: Sequence[str]) -> frozenset[Listener]:
    """Parse the second column of /proc/net/tcp and tcp6."""
    found = set()
    for line in lines:
        address, _, port = line.strip().partition(":")
        with suppress(ValueError, OSError):
            found.add(Listener("tcp", decode_address(address, "little"), int(port, 16)))
    return frozenset(found)


async def watch(
    command: Sequence[str],
    *,
    on_clock: Callable[[float], Awaitable[None]],
    on_disk: Callable[[str], None] = lambda line: None,
    on_mounted: Callable[[str], None] = lambda line: None,
    on_line: Callable[[], None] = lambda: None,
    reachable: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[frozenset[Listener]]:
    """Yield all listeners, now and whenever the set changes; reconnect when ssh is lost.

    `command` runs the loop in the guest. `on_clock` gets the seconds that the guest's clock is
    ahead, `on_disk` the lines of df, `on_mounted` what containers mount. `on_line` is called for
    every sign of life. `reachable` returns when the guest runs.
    """
    last: frozenset[Listener] | None = None
    texts = {DISK: on_disk, MOUNTED: on_mounted}
    while True:
        if reachable is not None:
            await reachable()
        async with aclosing(_watch_once(command, on_clock, texts, on_line)) as stream:
            async for found in stream:
                if found != last:
                    last = found
                    yield found
        await asyncio.sleep(_RECONNECT_S)


async def _watch_once(
    command: Sequence[str],
    on_clock: Callable[[float], Awaitable[None]],
    texts: Mapping[str, Callable[[str], None]],
    on_line: Callable[[], None],
) -> AsyncGenerator[frozenset[Listener], None]:
    process = await start_process(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async for raw in process.stdout:
            line = raw.decode(errors="replace").strip()
            on_line()
            if line == ALIVE:
                continue
            kind, _, text = line.partition(" ")
            if kind in texts:
                texts[kind](text)
            elif line.startswith("clock "):
                ahead = float(line.split()[1]) - time.time()
                await on_clock(ahead)
            elif line == END:
                yield parse(lines)
                lines = []
            else:
                lines.append(line)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
