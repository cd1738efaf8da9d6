# SPDX-License-Identifier: Apache-2.0
"""What listens in the guest, and how late its clock is: one loop there, one reader here.

A shell in the guest looks at its sockets every second and writes only when something has
changed, so an idle machine costs this one nothing. Once a minute it tells the time, which also
ends the loop when nobody reads it any more. Container engines that publish a port listen on it
in the guest, so they need no special treatment. UDP is not looked at: ssh cannot carry it.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress

from rdd.host.commands import start_process
from rdd.vm.drivers.protocol import Listener

_AGAIN_S = 1.0
_CLOCK_TOLERANCE_S = 2.0  # a guest tells whole seconds, and an emulated one takes its time
END = "."

# One awk that reads the tables again and again: a guest that is emulated notices each process
# that is started every second. Only `sleep` is.
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
        if (count % 60 == 0) { "date +%s" | getline now; close("date +%s"); print "clock " now }
        fflush()
        system("sleep 1")
    }
}'"""


def parse(lines: Sequence[str]) -> frozenset[Listener]:
    """Listeners from lines of /proc/net/tcp and tcp6, as their second column has them."""
    found = set()
    for line in lines:
        address, _, port = line.strip().partition(":")
        with suppress(ValueError, OSError):
            found.add(Listener("tcp", _address(address), int(port, 16)))
    return frozenset(found)


def _address(digits: str) -> str:
    """An address as the kernel shows it: words of four bytes, each in the order of the CPU."""
    import ipaddress

    raw = bytes.fromhex(digits)
    turned = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    address = ipaddress.ip_address(turned)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(address)


async def watch(
    command: Sequence[str], *, on_drift: Callable[[float], Awaitable[None]]
) -> AsyncIterator[frozenset[Listener]]:
    """All listeners, now and whenever the set changes; begins again when ssh is lost.

    `command` runs a line in the guest. `on_drift` is called with the seconds the guest's clock
    is ahead, when that is too much.
    """
    last: frozenset[Listener] | None = None
    while True:
        async with aclosing(_once(command, on_drift)) as stream:
            async for found in stream:
                if found != last:
                    last = found
                    yield found
        await asyncio.sleep(_AGAIN_S)


async def _once(
    command: Sequence[str], on_drift: Callable[[float], Awaitable[None]]
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
            if line.startswith("clock "):
                ahead = float(line.split()[1]) - time.time()
                if abs(ahead) > _CLOCK_TOLERANCE_S:
                    await on_drift(ahead)
            elif line == END:
                yield parse(lines)
                lines = []
            else:
                lines.append(line)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
