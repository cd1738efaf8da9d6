# SPDX-License-Identifier: Apache-2.0
"""A sampling profile of the server for one kind of request.

    python -m bench.hotpaths create|put|patch|get|get-rv0|list|apply|delete [--seconds S]

Runs the server in this process and a client in another one. A timer of CPU time interrupts
the server and records the Python functions on the stack. Python delivers the signal at the
next step of the interpreter: time in C (TLS, JSON) counts for the Python function that called
it or the one that runs next, so only the larger figures are reliable. It prints two tables:
lines by their own samples, and functions by samples on the stack. Other threads are not
sampled; it prints their share of the CPU time.
"""

import argparse
import asyncio
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bench import objects
from bench.load import APPLY_PATCH, MERGE_PATCH, Call, Client, Phase, run
from bench.server import Access, Process, temporary_home

INTERVAL_S = 0.001
SHOWN = 28
NAMESPACE = "default"
COUNT = 1_000
GROUP = "profile.bench.rdd.test"
CONFIGMAPS = objects.CONFIGMAPS.format(NAMESPACE)
GADGETS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/gadgets"


def _configmap_put(i: int) -> Call:
    name = f"cm-{i % COUNT:05}"
    body = objects.configmap(name, i, mark=str(i))
    return Call("PUT", f"{CONFIGMAPS}/{name}", body)


def _apply(i: int) -> Call:
    name = f"applied-{i % 100:05}"
    body = objects.custom(GROUP, name, i % 100, size=i)
    path = f"{GADGETS}/{name}?fieldManager=bench&force=true"
    return Call("PATCH", path, body, APPLY_PATCH, statuses=(200, 201))


CALLS: dict[str, Callable[[int], Call]] = {
    "create": lambda i: Call(
        "POST", CONFIGMAPS, objects.configmap(f"new-{i:06}", i), statuses=(201,)
    ),
    "put": _configmap_put,
    "patch": lambda i: Call(
        "PATCH",
        f"{CONFIGMAPS}/cm-{i % COUNT:05}",
        b'{"data":{"mark":"%d"}}' % i,
        MERGE_PATCH,
    ),
    "get": lambda i: Call("GET", f"{CONFIGMAPS}/cm-{i % COUNT:05}"),
    "get-rv0": lambda i: Call("GET", f"{CONFIGMAPS}/cm-{i % COUNT:05}?resourceVersion=0"),
    "list": lambda i: Call("GET", CONFIGMAPS),
    "apply": _apply,
    "cr-create": lambda i: Call(
        "POST", GADGETS, objects.custom(GROUP, f"cr-{i:06}", i, size=1), statuses=(201,)
    ),
    "delete": lambda i: Call("DELETE", f"{CONFIGMAPS}/cm-{i:05}"),
}


class Sampler:
    """Counts functions on the stack of the main thread."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.samples = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample during the block."""
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _tick(self, _number: int, frame: FrameType | None) -> None:
        self.samples += 1
        seen = set()
        is_innermost = True
        while frame is not None:
            code = frame.f_code
            name = f"{_short(code.co_filename)}:{code.co_firstlineno} {code.co_qualname}"
            if is_innermost:
                self.own[f"{name} (line {frame.f_lineno})"] += 1
                is_innermost = False
            seen.add(name)
            frame = frame.f_back
        self.total.update(seen)

    def show(self) -> None:
        """Print both tables."""
        for title, counts in (("own", self.own), ("on the stack", self.total)):
            print(f"\n{title} ({self.samples} samples)")
            for name, count in counts.most_common(SHOWN):
                print(f"{count / self.samples:7.1%}  {name}")


def _short(path: str) -> str:
    for mark in ("/src/", "/site-packages/", "/lib/python3.11/"):
        if mark in path:
            return path.rpartition(mark)[2]
    return path


async def profile(home: Path, what: str, seconds: float) -> None:
    """Serve and sample while a child process sends requests."""
    from rdd.daemon.options import ServeOptions
    from rdd.daemon.stages import control_plane
    from rdd.instance import Instance

    instance = Instance("2", home, "linux")
    async with control_plane(instance, ServeOptions(secure_port=0)) as running:
        authority = instance.tls_dir / "apiserver.crt"
        command = [
            *(sys.executable, "-m", "bench.hotpaths", what, "--seconds", str(seconds)),
            *("--url", f"https://{running.address}", "--token", running.tokens["root"]),
            *("--ca", str(authority)),
        ]
        client = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert client.stdout is not None
        await client.stdout.readline()  # prepared
        sampler = Sampler()
        threads, process = time.thread_time(), time.process_time()
        with sampler.running():
            printed = await client.stdout.read()
            await client.wait()
        threads, process = time.thread_time() - threads, time.process_time() - process
        print(printed.decode().strip())
        print(f"other threads: {1 - threads / process:.0%} of the CPU time")
        sampler.show()


async def drive(access: Access, what: str, seconds: float) -> None:
    """Run the client: prepare, print "prepared", send."""
    async with Client(access) as client:
        me = Process(os.getpid())

        def made(i: int) -> Call:
            return Call("POST", CONFIGMAPS, objects.configmap(f"cm-{i:05}", i), statuses=(201,))

        count = COUNT * 20 if what == "delete" else COUNT
        await run(client, me, Phase("fill", 8, made, count, 60))
        await client.send(Call("POST", objects.CRDS, objects.crd(GROUP), statuses=(201,)))
        await asyncio.sleep(1)
        print("prepared", flush=True)
        limit = count if what == "delete" else None
        result = await run(client, me, Phase(what, 8, CALLS[what], limit, seconds))
        print(f"{what}: {result.per_second:.0f}/s, p50 {result.p50_ms:.2f} ms")


def main() -> int:
    from rdd.daemon import loop

    parser = argparse.ArgumentParser(prog="bench.hotpaths", description="a sampling profile")
    parser.add_argument("what", choices=CALLS)
    parser.add_argument("--seconds", type=float, default=4.0)
    for internal in ("--url", "--token", "--ca"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    with loop.runner() as runner:
        if given.url:
            tls = ssl.create_default_context(cafile=given.ca)
            runner.run(drive(Access(given.url, given.token, tls), given.what, given.seconds))
        else:
            with temporary_home() as home:
                runner.run(profile(home, given.what, given.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
