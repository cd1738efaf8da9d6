# SPDX-License-Identifier: Apache-2.0
"""Creates or deletes an instance repeatedly, each time killed one step later.

A step is a change of the file system, according to the interpreter's audit events. After each
kill another process inspects the remains, repeats the operation and reports the outcome: one
JSON line per step. The program has a single thread, so that forking is safe.

Usage: crash_points.py create|delete DIRECTORY
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from tests.unit.vm.machine_world import FACTS, FakeProvider

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.instance_dir import LimaHome
from rdd.vm.machines import InstanceStatus, MachineExists, Machines

STEPS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.chmod"}
MOST = 200


def machines(home: LimaHome) -> Machines:
    return Machines(home, agent_command=(), changed=print, environment={}, facts=FACTS)


async def create(home: LimaHome) -> None:
    await machines(home).create("vm", "vmType: host\ncpus: 1\n", progress=lambda _: None)


async def delete(home: LimaHome) -> None:
    found = machines(home)
    await found.sweep()
    await found.delete("vm", grace_s=0)


def in_child(work: Callable[[], Awaitable[Any]], *, steps: int | None = None) -> int:
    """Run `work` in a child, killed (9) after `steps`; return the exit code."""
    child = os.fork()
    if child == 0:
        try:
            if steps is not None:
                kill_after(steps)
            asyncio.run(cast(Any, work()))
        except MachineExists:
            os._exit(3)
        except HostError as error:
            sys.stderr.write(f"{error}\n")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def kill_after(steps: int) -> None:
    left = steps

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        is_write = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in STEPS or is_write:
            if left == 0:
                os._exit(9)
            left -= 1

    sys.addaudithook(count)


def look(home: LimaHome) -> dict[str, Any]:
    directory = home.directory("vm")
    status = directory.status()
    answer: dict[str, Any] = {"status": status, "exists": directory.exists()}
    answer["preparing"] = directory.preparing.exists()
    if status is InstanceStatus.STOPPED:
        answer["complete"] = (
            directory.driver == "host"
            and directory.template(FACTS).cpus == 1
            and (directory.path / "disk").exists()
        )
    return answer


def main() -> None:
    work, path = {"create": create, "delete": delete}[sys.argv[1]], Path(sys.argv[2])
    provider = FakeProvider()
    catalog.provider = lambda name: cast(Any, provider)
    for steps in range(MOST):
        home = LimaHome(path / str(steps))
        if work is delete:
            assert in_child(lambda home=home: create(home)) == 0  # type: ignore[misc]
        code = in_child(lambda home=home: work(home), steps=steps)  # type: ignore[misc]
        answer = {"code": code, **look(home)}
        answer["again"] = in_child(lambda home=home: work(home))  # type: ignore[misc]
        answer["left"] = sorted(os.listdir(home.path)) if home.path.exists() else []
        answer["after"] = look(home)
        print(json.dumps(answer), flush=True)
        shutil.rmtree(home.path, ignore_errors=True)
        if code == 0:
            return


main()
