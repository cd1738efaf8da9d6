# SPDX-License-Identifier: Apache-2.0
"""Wake-up of an idle guest: the time of a request that finds it paused or suspended.

    python -m bench.idle_guest [ROUNDS] [MIB]

Boots the Debian guest (`make guest-image`) with MIB (1024) of memory, and asks its dockerd at the
forwarded socket. Prints a line of JSON with p50 and the longest time of ROUNDS (10) requests
while it runs, while it is paused and while it is suspended, and the load.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path

from tests.e2e.machine.qemu_world import World, eventually, world

from rdd.vm.idle.report import IdleReport
from rdd.vm.idle.settings import IdleAction, IdleSettings

_GUEST = Path(__file__).parents[1] / ".cache/guest/current/debian"
_FORWARD = "portForwards:\n- guestSocket: /var/run/docker.sock\n  hostSocket: docker.sock\n"
_BOOT_S = 180.0


async def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    memory = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    async with world(_GUEST, Path.home() / ".cache/rdd") as made:
        machine = f"vmType: qemu\ncpus: 2\nmemory: {memory}MiB\ndisk: 4GiB\n{_FORWARD}"
        directory = await made.create("vm", machine)
        await made.start("vm")
        path = directory.sockets / "docker.sock"
        deadline_s = time.monotonic() + _BOOT_S
        while not await _ask(path):
            assert time.monotonic() < deadline_s, made.logs("vm")
            await asyncio.sleep(1)
        found: dict[str, object] = {"load": os.getloadavg()[0], "MiB": memory}
        found["running"] = _summary([await _timed(path) for _ in range(rounds)])
        for action in ("pause", "suspend"):
            found[action] = await _woken(made, path, action, rounds)
        found["load at the end"] = os.getloadavg()[0]
        print(json.dumps(found))


async def _woken(made: World, path: Path, action: IdleAction, rounds: int) -> dict[str, float]:
    settings = IdleSettings(action=action, after_s=1, cpu_percent=100)
    await made.machines.set_idle("vm", settings)

    def is_done() -> bool:
        seen = made.machines.phase("vm").idle or IdleReport()
        return seen.is_suspended if action == "suspend" else bool(seen.paused_since)

    times = []
    for _ in range(rounds):
        await eventually(is_done)
        times.append(await _timed(path))
    await made.machines.set_idle("vm", IdleSettings())
    return _summary(times)


async def _timed(path: Path) -> float:
    began = time.perf_counter()
    assert await _ask(path)
    return time.perf_counter() - began


async def _ask(path: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.write(b"GET /containers/json HTTP/1.0\r\nHost: d\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return b" 200 " in answer.partition(b"\r\n")[0]


def _summary(times: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(statistics.median(times) * 1000, 1),
        "max_ms": round(max(times) * 1000, 1),
    }


if __name__ == "__main__":
    asyncio.run(main())
