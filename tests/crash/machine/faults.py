# SPDX-License-Identifier: Apache-2.0
"""Faults of the daemon and its surroundings, each with its end: afterwards the plane must serve.

A fault is a coroutine function of the plane and a random generator that the seed of the round
determines. It raises Broken when the plane does not come back, or reports the fault badly.
"""

import asyncio
import contextlib
import os
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.crash.machine.plane import CLOCK_CACHE_S, Broken, Ended, Plane
from tests.programs import run_program

Fault = Callable[[Plane, random.Random], Awaitable[None]]

OFFSETS = ("+1h", "-1h", "+400d", "-400d")
BLOCK = 4096


async def kill(plane: Plane, choose: random.Random) -> None:
    """Kill the daemon and start it."""
    await plane.kill()
    await plane.start()


async def kill_repeatedly(plane: Plane, choose: random.Random) -> None:
    """Kill the daemon, then some starts of it at random moments."""
    await plane.kill()
    for _ in range(choose.randrange(1, 4)):
        command = await asyncio.to_thread(plane.world.begin, "svc", "start")
        await asyncio.sleep(choose.random())
        await plane.kill()
        done = await asyncio.to_thread(plane.world.end, command)
        if "Traceback" in done.err or done.code not in (0, 1):
            raise Broken(f"svc start of a killed daemon: {done}")
        await plane.kill()  # the one that this command started after the first look
    await plane.start()


async def pause(plane: Plane, choose: random.Random) -> None:
    """Stop the daemon for some seconds with SIGSTOP."""
    pid = plane.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(0.3 + choose.random() * 2)
        if choose.random() < 0.3:
            done = await plane.rdd("svc", "status")
            if done.code not in (0, 1):
                raise Broken(f"status of a stopped daemon: {done}")
    finally:
        os.kill(pid, signal.SIGCONT)
    await plane.ready()


async def stop(plane: Plane, choose: random.Random) -> None:
    """Stop the daemon in order, by command or by signal."""
    if choose.random() < 0.5:
        done = await plane.rdd("svc", "stop")
        if done.code != 0:
            raise Broken(f"svc stop failed: {done.err}")
    else:
        await plane.kill(choose.choice((signal.SIGTERM, signal.SIGINT)))
    await plane.start()


async def full_disk(plane: Plane, choose: random.Random) -> None:
    """Fill the disk; sometimes the daemon is killed and started meanwhile."""
    ballast = plane.home / "ballast"
    _fill(ballast, leave=choose.choice((0, 0, 4, 16, 64)) * BLOCK)
    try:
        await asyncio.sleep(choose.random())
        if choose.random() < 0.4:
            await plane.kill()
            await plane.rdd("svc", "start")  # may fail, with one line
        await asyncio.sleep(choose.random())
    finally:
        ballast.unlink()
    if not plane.pid():
        await plane.start()
    await plane.ready()


def _fill(path: Path, leave: int) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 512):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
        file.truncate(max(0, file.tell() - leave))


async def read_only(plane: Plane, choose: random.Random) -> None:
    """Kill the daemon, make its disk read-only, and try to start it."""
    await plane.kill()
    for _ in range(20):  # a command may still have a log open for writing
        if run_program(["mount", "-o", "remount,ro", plane.home]).returncode == 0:
            break
        await asyncio.sleep(0.1)
    else:
        await plane.start()
        return
    try:
        done = await plane.rdd("svc", "start")
        if done.code != 1 or "ead-only file system" not in done.err:
            raise Broken(f"svc start on a read-only disk: {done}")
    finally:
        run_program(["mount", "-o", "remount,rw", plane.home], check=True)
    await plane.start()


async def no_descriptors(plane: Plane, choose: random.Random) -> None:
    """Leave the daemon as many descriptors as it has, or few more."""
    plane.tracebacks_allowed = True
    pid = plane.pid()
    used = len(os.listdir(f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + choose.choice((0, 1, 3)), before[1]))
    await asyncio.sleep(0.5 + choose.random() * 1.5)
    await _recover(plane, pid, resource.RLIMIT_NOFILE, before)


async def no_memory(plane: Plane, choose: random.Random) -> None:
    """Leave the daemon little memory; it may end, but must not lose anything."""
    plane.tracebacks_allowed = True
    pid = plane.pid()
    used = _address_space(pid)
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    extra = choose.choice((0, 1, 4)) << 20
    resource.prlimit(pid, resource.RLIMIT_AS, (used + extra, before[1]))
    await asyncio.sleep(0.5 + choose.random() * 1.5)
    await _recover(plane, pid, resource.RLIMIT_AS, before)


async def clock_jump(plane: Plane, choose: random.Random) -> None:
    """Move the wall clock of daemon, agents and commands while they run.

    Half of the time the daemon is restarted with the new time, and half of the time the clock
    stays there for the rest of the round.
    """
    plane.clock.write_text(f"{choose.choice(OFFSETS)}\n")
    await asyncio.sleep(CLOCK_CACHE_S + choose.random())
    done = await plane.rdd("svc", "status")
    if done.code != 0:
        raise Broken(f"status after a jump of the clock: {done}")
    if choose.random() < 0.5:
        await choose.choice((kill, stop))(plane, choose)
    if choose.random() < 0.5:
        plane.clock.write_text("+0\n")
        await asyncio.sleep(CLOCK_CACHE_S)
    done = await plane.rdd("svc", "start")  # must reach the running daemon
    if done.code != 0:
        raise Broken(f"svc start after a jump of the clock: {done}")
    await plane.ready()


async def _recover(plane: Plane, pid: int, limit: int, before: tuple[int, int]) -> None:
    """Remove a limit; the daemon serves again or has ended, which may take a moment."""
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, limit, before)
    try:
        await plane.ready(give_up=lambda: identity_ended(pid))
    except Ended:
        await plane.start()


def _address_space(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def identity_ended(pid: int) -> bool:
    """Return whether a process has ended; a zombie has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "kill-starting": kill_repeatedly,
    "pause": pause,
    "stop": stop,
    "full-disk": full_disk,
    "read-only": read_only,
    "no-descriptors": no_descriptors,
    "no-memory": no_memory,
    "clock": clock_jump,
}
