# SPDX-License-Identifier: Apache-2.0
"""LimaVMs on a real server, with fake machines under the control of the test."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.controllers.controller_world import controller_environment, eventually, managed, reasons
from tests.runtime.runtime_world import World

from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.lima.limavm import controller
from rdd.kinds.limavm import LimaVM
from rdd.profiles.current import CurrentProfile
from rdd.runtime import Manager, resource_of
from rdd.vm.errors import Busy
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.instance_dir import InstanceStatus, LimaHome
from rdd.vm.lifecycle.observation import Observation, Phase

LIMAVMS = resource_of(LimaVM)
TEMPLATE = "vmType: host\nmessage: one\n"
WITH_PARAM = """\
vmType: host
param:
  GREETING: hello
provision:
- mode: system
  script: "echo {{.Param.GREETING}}"
"""


class FakeMachines:
    """Machines with files on disk and the rest of their state in dicts.

    A start and a stop complete at once. To observe the states in between, a test sets
    `is_slow` and calls `becomes`.
    """

    def __init__(self, home: Path) -> None:
        self.home = LimaHome(home)
        self.changed: Callable[[str], None] = lambda name: None
        self.seen: dict[str, Observation] = {}
        self.alive: dict[str, InstanceStatus] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.trashed: dict[str, bool] = {}
        self.trash_details: dict[str, dict[str, str]] = {}
        self.is_slow = False
        self.create_gate: asyncio.Event | None = None
        self.errors: dict[str, list[Exception]] = {}
        """The exceptions of the next calls of a method."""
        self.adopts = True
        self.snapshots: list[str] = []
        self.idle: dict[str, IdleSettings] = {}
        self.idle_problem = ""
        self.drivers: list[str] = []
        """The requested drivers of creations."""

    def __call__(self, changed: Callable[[str], None]) -> "FakeMachines":
        self.changed = changed
        self.seen.clear()
        return self

    def called(self, method: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == method]

    def becomes(self, name: str, phase: Phase, **members: Any) -> None:
        self.seen[name] = replace(self.seen.get(name, Observation()), phase=phase, **members)
        if phase in (Phase.STARTING, Phase.RUNNING):
            self.alive[name] = InstanceStatus.RUNNING
        elif phase is Phase.STOPPED:
            self.alive.setdefault(name, InstanceStatus.STOPPED)
            if self.alive[name] is InstanceStatus.RUNNING:
                self.alive[name] = InstanceStatus.STOPPED
        self.changed(name)

    def ends(
        self,
        name: str,
        reason: str = "",
        *tail: str,
        status: InstanceStatus = InstanceStatus.STOPPED,
    ) -> None:
        """Let the agent end unexpectedly."""
        self.alive[name] = status
        self.becomes(name, Phase.STOPPED, reason=reason, log_tail=tail)

    def _fail(self, method: str) -> None:
        if self.errors.get(method):
            raise self.errors[method].pop(0)

    async def create(
        self,
        name: str,
        text: str,
        *,
        progress: Callable[[str], None],
        clone_of: str = "",
        driver: str = "",
    ) -> None:
        self.drivers.append(driver)
        self.calls.append(("create", name, clone_of) if clone_of else ("create", name))
        self._fail("create")
        directory = self.home.directory(name)
        directory.path.mkdir(parents=True)
        directory.preparing.touch()
        directory.lima_yaml.write_text(text)
        try:
            if self.create_gate is not None:
                progress("downloading")
                await self.create_gate.wait()
        except BaseException:
            shutil.rmtree(directory.path)
            raise
        directory.preparing.unlink()

    def inspect(self, name: str) -> InstanceStatus:
        directory = self.home.directory(name)
        if not directory.exists() or directory.preparing.exists():
            return InstanceStatus.UNINITIALIZED
        return self.alive.get(name, InstanceStatus.STOPPED)

    def phase(self, name: str) -> Observation:
        return self.seen.get(name, Observation())

    def template_text(self, name: str) -> str | None:
        return self.home.directory(name).read_lima_yaml()

    def write_template(self, name: str, text: str) -> None:
        self._fail("write_template")
        self.home.directory(name).lima_yaml.write_text(text)

    async def start(self, name: str) -> None:
        self.calls.append(("start", name))
        self._fail("start")
        self.seen[name] = Observation()
        self.becomes(name, Phase.STARTING)
        if not self.is_slow:
            asyncio.get_running_loop().call_soon(self.becomes, name, Phase.RUNNING)

    async def adopt(self, name: str) -> bool:
        self.calls.append(("adopt", name))
        self._fail("adopt")
        if self.adopts:
            self.seen[name] = Observation()
            self.becomes(name, Phase.STARTING)
            if not self.is_slow:
                asyncio.get_running_loop().call_soon(self.becomes, name, Phase.RUNNING)
        return self.adopts

    def stop(self, name: str, *, grace_s: float, suspend: bool = False) -> None:
        self.calls.append(("suspend" if suspend else "stop", name, grace_s))
        self.becomes(name, Phase.STOPPING, is_stop_requested=True)
        if not self.is_slow:
            asyncio.get_running_loop().call_soon(self.becomes, name, Phase.STOPPED)

    def storage(self, name: str) -> AbstractAsyncContextManager[Any]:
        return nullcontext(self)

    async def describe_storage(self, name: str) -> dict[str, Any]:
        return {"snapshots": [{"name": text} for text in self.snapshots]}

    async def create_snapshot(self, name: str) -> None:
        self._fail("snapshot")
        self.snapshots.append(name)

    async def set_idle(self, name: str, settings: IdleSettings) -> str:
        if self.idle.get(name, IdleSettings()) != settings:
            self.calls.append(("set_idle", name, settings))
        self.idle[name] = settings
        self._fail("set_idle")
        return self.idle_problem

    async def grow(self, name: str) -> None:
        self.calls.append(("grow", name))
        self._fail("grow")

    async def trim(self, name: str) -> str:
        raise Busy(f'machine "{name}" must be running for that')

    async def restore(self, name: str, entry_id: str) -> None:
        self.calls.append(("restore", name, entry_id))
        self._fail("restore")
        self.home.directory(name).path.mkdir(parents=True)

    async def restore_snapshot(self, name: str, snapshot: str) -> None:
        self.calls.append(("restore_snapshot", name, snapshot))
        self.home.directory(name).path.mkdir(parents=True)

    async def delete(
        self,
        name: str,
        *,
        grace_s: float,
        keep_logs_in: Path | None,
        use_trash: bool,
        details: Mapping[str, str] | None = None,
    ) -> None:
        self.calls.append(("delete", name, grace_s))
        self.trash_details[name] = dict(details or {})
        self.trashed[name] = use_trash
        self._fail("delete")
        if self.is_slow and grace_s:
            await asyncio.sleep(grace_s)
        shutil.rmtree(self.home.directory(name).path, ignore_errors=True)
        self.alive.pop(name, None)
        self.seen.pop(name, None)

    async def sweep(self) -> None:
        self.calls.append(("sweep",))

    async def close(self) -> None:
        self.calls.append(("close",))

    async def drain(self, *, budget_s: float) -> None:
        self.calls.append(("drain",))
        for name in self.alive:
            self.alive[name] = InstanceStatus.STOPPED


class VMWorld:
    """A server, machines, and the operations of a user."""

    def __init__(self, world: World, machines: FakeMachines) -> None:
        self.world = world
        self.client = world.client
        self.machines = machines

    @asynccontextmanager
    async def managed(self, profile: CurrentProfile | None = None) -> AsyncIterator[Manager]:
        env = controller_environment(self.machines.home.path.parent)
        made = controller(replace(env, profile=profile), self.machines)
        async with managed(self.world, made) as manager:
            yield manager

    async def source(self, text: str = TEMPLATE, name: str = "source", **members: Any) -> Object:
        metadata = {"name": name, "namespace": "default", **members}
        return await self.client.create(
            CONFIG_MAPS, {"metadata": metadata, "data": {"template": text}}
        )

    async def namespace(self, name: str) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    async def create(
        self, name: str = "vm", *, running: bool = False, namespace: str = "default", **spec: Any
    ) -> Object:
        return await self.client.create(LIMAVMS, limavm(name, namespace, running=running, **spec))

    async def get(self, name: str = "vm") -> Object:
        return await self.client.get(LIMAVMS, name, namespace="default")

    async def patch(self, patch: Object, name: str = "vm") -> Object:
        return await self.client.patch(LIMAVMS, name, patch, namespace="default")

    async def run(self, running: bool, name: str = "vm") -> Object:
        return await self.patch({"spec": {"running": running}}, name)

    async def annotate(self, annotation: str, value: str | None = "now", name: str = "vm") -> None:
        await self.patch({"metadata": {"annotations": {annotation: value}}}, name)

    async def edit(self, text: str, name: str = "vm") -> Object:
        return await self.client.patch(
            CONFIG_MAPS, f"{name}-template", {"data": {"template": text}}, namespace="default"
        )

    async def copy(self, name: str = "vm") -> Object:
        return await self.client.get(CONFIG_MAPS, f"{name}-template", namespace="default")

    async def until(self, condition: Callable[[Object], object], name: str = "vm") -> Object:
        return await eventually(self.world, LIMAVMS, name, condition)

    async def changes(self, *expected: str, name: str = "vm") -> list[str]:
        """Wait until the ConditionChanged events include these notes; return all notes."""
        async with asyncio.timeout(600):
            while True:
                notes = (await reasons(self.world, name)).get("ConditionChanged", [])
                if set(notes).issuperset(expected):
                    return notes
                await asyncio.sleep(0.1)

    async def until_reason(self, reason: str, type_: str = "Running", name: str = "vm") -> Object:
        return await self.until(lambda vm: condition(vm, type_).get("reason") == reason, name)


def limavm(name: str, namespace: str = "default", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"templateRef": {"name": "source", "namespace": "default"}, **spec},
    }


def condition(vm: Object, type_: str) -> Object:
    for found in (vm.get("status") or {}).get("conditions") or ():
        if found["type"] == type_:
            return dict(found)
    return {}


def reported(vm: Object, type_: str = "Running") -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    found = condition(vm, type_)
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")
