# SPDX-License-Identifier: Apache-2.0
"""The listening ports in the guest and its clock: a loop in the guest, a reader here.

A script in the guest scans its sockets every second and writes changes. Every few seconds it
writes a sign of life, by whose absence a guest that hangs is noticed, and once a minute the
time. Writing also ends the loop when its reader has gone. Container engines listen in the guest
on published ports, so they need no special treatment. UDP is not scanned: ssh cannot forward it.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress

from rdd.host.commands import start_process
from rdd.vm.drivers.protocol import Listener
from rdd.vm.forwarding.proc_net import decode_address

_RECONNECT_S = 1.0
END = "."
ALIVE = "alive"

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
        if (count % 3 == 0) print "alive"
        if (count % 60 == 0) { "date +%s" | getline now; close("date +%s"); print "clock " now }
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
    on_line: Callable[[], None] = lambda: None,
    reachable: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[frozenset[Listener]]:
    """Yield all listeners, now and whenever the set changes; reconnect when ssh is lost.

    `command` runs the loop in the guest. `on_clock` gets the seconds that the guest's clock is
    ahead. `on_line` is called for every sign of life. `reachable` returns when the guest runs.
    """
    last: frozenset[Listener] | None = None
    while True:
        if reachable is not None:
            await reachable()
        async with aclosing(_watch_once(command, on_clock, on_line)) as stream:
            async for found in stream:
                if found != last:
                    last = found
                    yield found
        await asyncio.sleep(_RECONNECT_S)


async def _watch_once(
    command: Sequence[str],
    on_clock: Callable[[float], Awaitable[None]],
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
            if line.startswith("clock "):
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
