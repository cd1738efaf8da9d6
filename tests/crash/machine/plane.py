# SPDX-License-Identifier: Apache-2.0
"""The control plane under attack: a home on a small file system, real programs, a clock that jumps.

The home is a tmpfs, so that filling it or making it read-only touches nothing else. Programs run
with libfaketime: the offset of their wall clock is the content of a file, so that it jumps while
they run; the monotonic clock is real (real_waits.c mends what libfaketime breaks).
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.crash.machine.wire import Connection, Cut
from tests.e2e.service.service_world import Done, World
from tests.programs import run_program

from rdd.host.processes import identity
from rdd.vm.instance_dir import InstanceDirectory, LimaHome

HOME_MIB = 64
ENGINE_MIB = 1_024
READY_S = 120.0
CLOCK_CACHE_S = 1
"""How long libfaketime uses an offset before it reads the file again."""
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
WAITS = Path(__file__).with_name("real_waits.c")


class Broken(Exception):
    """The control plane does not do what it promises; the text is the violation."""


class Ended(Exception):
    """The daemon has ended, which the fault permits."""


class Plane:
    """One instance in a home of its own."""

    def __init__(self, world: World, root: Path) -> None:
        self.world = world
        self.root = root
        self.starts = 0
        self.tracebacks_allowed = False
        """Whether a fault may cause an exception anywhere: no memory, no descriptors."""

    @property
    def home(self) -> Path:
        return self.world.home

    @property
    def kubeconfig(self) -> Path:
        return self.world.instance.config

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    def machine(self, name: str) -> InstanceDirectory:
        """Return the directory of a virtual machine."""
        return LimaHome(self.world.instance.lima_home).directory(name)

    async def rdd(self, *words: str) -> Done:
        """Run a command; it may fail, but never with a traceback."""
        done = await asyncio.to_thread(self.world.try_rdd, *words)
        if "Traceback" in done.err or "unexpected error" in done.err:
            raise Broken(f"rdd {' '.join(words)}: {done.err[-2000:]}")
        return done

    async def start(self) -> None:
        """Start the daemon and wait until it serves; whatever happened before, it must."""
        self.starts += 1
        done = await self.rdd("svc", "start")
        if done.code != 0:
            raise Broken(f"svc start failed: {done.err[-1500:]}\n{self.world.log()[-3000:]}")
        await self.ready()

    async def ready(self, *, give_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until the API can write; raise Ended when `give_up` returns true before."""
        connection = Connection(self.kubeconfig)
        try:
            async with asyncio.timeout(READY_S):
                while True:
                    with contextlib.suppress(Cut):
                        if (await connection.request("GET", "/readyz"))[0] == 200:
                            return
                    if give_up():
                        raise Ended
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log = self.world.log()[-3000:]
            raise Broken(f"not ready within {READY_S:g} s after a fault\n{log}") from None
        finally:
            connection.close()

    def pid(self) -> int:
        """Return the process id of the daemon, or 0."""
        found = self.world.pid()
        return found if found and identity(found) is not None else 0

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that ends the daemon, and wait for its end."""
        pid = self.pid()
        if pid:
            os.kill(pid, number)
            await self.ended(pid)

    async def ended(self, pid: int) -> None:
        """Wait for the end of a process."""
        async with asyncio.timeout(READY_S):
            while identity(pid) is not None:  # noqa: ASYNC110  (another process's doing)
                await asyncio.sleep(0.01)

    def log_texts(self) -> list[str]:
        """Return all logs of the daemon, also those of earlier starts."""
        found = sorted(self.world.instance.log_dir.glob("*.log*"))
        return [path.read_text(errors="replace") for path in found if path.is_file()]


def faketime_variables(root: Path) -> dict[str, str]:
    """Return the variables with which a program's wall clock follows the file `clock`."""
    library = root / "real_waits.so"
    run_program(["gcc", "-shared", "-fPIC", "-o", library, WAITS], check=True)
    (root / "clock").write_text("+0\n")
    return {
        "LD_PRELOAD": f"{library} {FAKETIME}",
        "FAKETIME_TIMESTAMP_FILE": str(root / "clock"),
        "FAKETIME_CACHE_DURATION": str(CLOCK_CACHE_S),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@asynccontextmanager
async def plane(
    script: Path, kubectl: Path, *, size_mib: int = HOME_MIB, with_clock: bool = False
) -> AsyncIterator[Plane]:
    """Yield a control plane that has not been started; remove everything afterwards."""
    root = Path(tempfile.mkdtemp(prefix="rdc", dir="/tmp"))
    home = root / "h"
    home.mkdir()
    options = f"size={size_mib}m,mode=0700"
    run_program(["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], check=True)
    world = World(script, home, kubectl)
    world.variables["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if with_clock:
        world.variables |= faketime_variables(root)
    made = Plane(world, root)
    try:
        yield made
    finally:
        _end(made)


def _end(made: Plane) -> None:
    """End every process of the home, whatever state a violation left."""
    run_program(["mount", "-o", "remount,rw", made.home])
    mark = str(made.root).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
    made.world.programs.close()
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([p for p in mounts if p.startswith(str(made.root))]):
        run_program(["umount", "--lazy", point])
    shutil.rmtree(made.root, ignore_errors=True)
    _forget_clocks()


def _forget_clocks() -> None:
    """Remove what libfaketime keeps for processes that were killed."""
    for path in Path("/dev/shm").glob("*faketime_*"):
        pid = path.name.rpartition("_")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            path.unlink(missing_ok=True)
