# SPDX-License-Identifier: Apache-2.0
"""The mirror of the container engine: full sync, latency of events, cost at rest.

    python -m bench.engine [--containers 1000] [--images 500] [--volumes 200] [--events 200]

A real dockerd in separate namespaces (it needs root) and the daemon as users start it, with
only the controllers of containers; this program writes the App. Latency is the time from the
timestamp of an event in the engine to the arrival of the watch event at a client over HTTPS.
Both use the clock of this machine.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.server import Server, temporary_home
from tests.controllers.containers.engine_parts import Dockerd

from rdd.client import Client
from rdd.client.https import HttpsTransport
from rdd.client.kubeconfig import load
from rdd.engine import Docker
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.container import Container
from rdd.runtime import ObjectKey, apply_status, find_condition, resource_of

RUNNING = 20
IDLE_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.engine", description=__doc__)
    parser.add_argument("--containers", type=int, default=1000)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--volumes", type=int, default=200)
    parser.add_argument("--events", type=int, default=200)
    given = parser.parse_args(arguments)
    program = shutil.which("dockerd", path="/usr/sbin:/usr/bin")
    if program is None:
        print("dockerd is missing", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="rdd-bench-") as name:
        dockerd = Dockerd(Path(program), Path(name) / "d")
        try:
            dockerd.start()
            dockerd.import_image()
            fill(dockerd, given)
            with temporary_home() as home:
                asyncio.run(measure(dockerd, home, given))
        finally:
            dockerd.stop()
    return 0


def fill(dockerd: Dockerd, given: argparse.Namespace) -> None:
    """Create the requested number of objects in the engine."""
    began = time.perf_counter()
    for i in range(given.images - 1):
        dockerd.import_layer(f"bench/image{i}", str(i))
    for i in range(given.volumes):
        dockerd.call("POST", "/volumes/create", {"Name": f"volume{i}"})
    for i in range(given.containers):
        id_ = dockerd.create(f"container{i}", Labels={"bench": "yes"})
        if i < RUNNING:
            dockerd.post(id_, "start")
    print(f"filled the engine in {time.perf_counter() - began:.1f} s")


async def measure(dockerd: Dockerd, home: Path, given: argparse.Namespace) -> None:
    instance = Instance("2", home)
    instance.short_dir.mkdir(parents=True)
    instance.docker_socket.symlink_to(dockerd.socket)
    with Server(home, "--controllers", "containers") as server:
        async with Client(HttpsTransport(load(instance.config))) as client:
            rss, cpu = server.process.rss_mib(), server.process.cpu_s()
            sync_s = await connect(client)
            busy_s = server.process.cpu_s() - cpu
            await asyncio.sleep(2)
            print(f"full sync {sync_s:.2f} s ({busy_s:.2f} s of CPU time)")
            print(f"memory {rss:.0f} MiB before, {server.process.rss_mib():.0f} MiB after")
            print_idle(server, await at_rest(server))
            for title, change in (("create", create), ("pause", pause)):
                await latency(client, dockerd, title, change, given.events)
            print(f"memory {server.process.rss_mib():.0f} MiB at the end")


async def connect(client: Client) -> float:
    """Return the time from the readiness of the machine to that of the engine."""
    await client.create(
        resource_of(App),
        {"metadata": {"name": "app"}, "spec": {"running": True, "namespace": "default"}},
    )
    running = {
        "type": "Running",
        "status": "True",
        "reason": "Started",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    began = time.perf_counter()
    key = ObjectKey("", "app")
    await apply_status(client, App, key, {"conditions": [running]}, field_manager="bench")
    async for event in client.list_and_watch(resource_of(App)):
        if event.type in ("ADDED", "MODIFIED"):
            conditions = (event.object.get("status") or {}).get("conditions")
            ready = find_condition(conditions, "ContainerEngineReady")
            if ready is not None and ready["status"] == "True":
                return time.perf_counter() - began
    raise AssertionError("the watch ended")


async def at_rest(server: Server) -> float:
    cpu = server.process.cpu_s()
    await asyncio.sleep(IDLE_S)
    return server.process.cpu_s() - cpu


def print_idle(server: Server, cpu_s: float) -> None:
    print(f"at rest {cpu_s / IDLE_S:.2%} of a core")


Change = Callable[[Docker, str], Any]


async def create(docker: Docker, id_: str) -> None:
    raise AssertionError("created by the caller")


async def pause(docker: Docker, id_: str) -> None:
    state = (await docker.inspect_container(id_))["State"]
    await (docker.unpause_container if state["Paused"] else docker.pause_container)(id_)


async def latency(client: Client, dockerd: Dockerd, title: str, change: Change, count: int) -> None:
    """Change containers one after the other and measure when clients receive the event."""
    happened: dict[tuple[str, str], int] = {}
    seen: dict[tuple[str, str], int] = {}
    docker = Docker(dockerd.socket)
    resource = resource_of(Container)
    listed = await client.list(resource)
    running = [o["metadata"]["name"] for o in listed.items if o["status"]["status"] == "running"]

    async def watch() -> None:
        version = listed.resource_version
        async for event in client.watch(resource, resource_version=version):
            now = time.time_ns()
            status = event.object.get("status") or {}
            if event.type in ("ADDED", "MODIFIED") and status:
                seen.setdefault((event.object["metadata"]["name"], status["status"]), now)

    async def follow() -> None:
        names = {"create": "created", "pause": "paused"}
        async with docker.events(filters={"type": ["container"], "event": list(names)}) as events:
            async for event in events:
                happened.setdefault((event.id, names[event.action]), event.time_ns)

    tasks = [asyncio.ensure_future(watch()), asyncio.ensure_future(follow())]
    await asyncio.sleep(0.3)
    for i in range(count):
        if change is create:
            await asyncio.to_thread(dockerd.create, f"{title}{i}")
        else:
            id_ = running[i % len(running)]
            await change(docker, id_)
            await asyncio.sleep(0.02)
            await change(docker, id_)
            seen.pop((id_, "paused"), None) if i + len(running) < count else None
            happened.pop((id_, "paused"), None) if i + len(running) < count else None
        await asyncio.sleep(0.02)
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await docker.close()
    found = sorted((seen[key] - at) / 1e6 for key, at in happened.items() if key in seen)
    if not found:
        print(f"{title}: nothing was seen")
        return
    p99 = found[min(len(found) - 1, int(len(found) * 0.99))]
    print(
        f"{title}: {len(found)} events, p50 {statistics.median(found):.1f} ms, "
        f"p99 {p99:.1f} ms, longest {found[-1]:.1f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
