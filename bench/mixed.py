# SPDX-License-Identifier: Apache-2.0
"""Memory of the server after many mixed operations, with the same objects as before.

    python -m bench.mixed [OPERATIONS]

Eight clients on 1,000 ConfigMaps: a fifth each of creations, reads, updates, pages of 50, and
deletions of what was created. Prints a line of JSON with the memory after a tenth of the
operations (1,000,000), which warm the server up, after the rest, and the growth.
"""

import asyncio
import itertools
import json
import os
import sys

from bench import objects
from bench.apiserver import uvloop_runner
from bench.load import Call, Client, Phase, run
from bench.server import Server, temporary_home

_OBJECTS = 1_000
_CLIENTS = 8
_BEHIND = 200  # a deletion follows its creation after so many rounds
_PATH = objects.CONFIGMAPS.format("default")
_PARTS = 10


def main() -> None:
    operations = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with temporary_home() as home, Server(home) as server, uvloop_runner() as runner:
        print(json.dumps(runner.run(_measure(server, operations))))


def _call(number: int) -> Call:
    round_, kind = divmod(number, 5)
    name = f"cm-{round_ % _OBJECTS:05}"
    if kind == 0:
        body = objects.configmap(f"new-{round_:07}", number, mark="new")
        return Call("POST", _PATH, body, statuses=(201,))
    if kind == 1:
        return Call("GET", f"{_PATH}/{name}")
    if kind == 2:
        return Call("PUT", f"{_PATH}/{name}", objects.configmap(name, number, mark=str(number)))
    if kind == 3:
        return Call("GET", f"{_PATH}?limit=50")
    if round_ < _BEHIND:
        return Call("GET", f"{_PATH}/{name}")
    return Call("DELETE", f"{_PATH}/new-{round_ - _BEHIND:07}")


async def _measure(server: Server, operations: int) -> dict[str, object]:
    bodies = [objects.configmap(f"cm-{n:05}", n, mark="first") for n in range(_OBJECTS)]
    counter, memory = itertools.count(), []
    async with Client(server.access()) as client:
        for body in bodies:
            await client.send(Call("POST", _PATH, body, statuses=(201,)))
        for _ in range(_PARTS):
            part = Phase(
                "mixed", _CLIENTS, lambda _: _call(next(counter)), operations // _PARTS, 600
            )
            await run(client, server.process, part)
            memory.append(round(server.process.rss_mib(), 1))
        await asyncio.sleep(2)
        memory.append(round(server.process.rss_mib(), 1))
    percent = round(memory[-1] / memory[0] * 100, 1)
    load = os.getloadavg()[0]
    return {"operations": operations, "MiB": memory, "percent of warm": percent, "load": load}


if __name__ == "__main__":
    main()
