# SPDX-License-Identifier: Apache-2.0
"""A whole control plane in this process, with real machines, and all conditions of its App.

Only k3s is a stand-in (tests/k3s.py). No test writes a condition: it causes one and reads it from
a watch, which misses none.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.machine.host_world import run
from tests.e2e.machine.limavm_parts import processes

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.http.request import Request
from rdd.client import ApiResource, Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS
from rdd.daemon.credentials import ADMIN
from rdd.daemon.options import ServeOptions
from rdd.daemon.stages import control_plane
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import find_condition, resource_of
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.drivers.kubernetes_files import program_of
from rdd.vm.instance_dir import InstanceDirectory, LimaHome

ROOT = Path(__file__).parents[3]
RELEASE = "v1.33.7+k3s3"
VERSION = "1.33.7"
APPS, LIMAVMS = resource_of(App), resource_of(LimaVM)
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
TIMEOUT_S = 120.0


class ObservedCondition(NamedTuple):
    """A state of a condition that the watch has seen."""

    type: str
    status: str
    reason: str
    message: str


class Desktop:
    """One home, the control planes that run in it in turn, and the observed conditions."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.instance = Instance("2", home)
        self.environment = {"HOME": str(home), "PATH": PATH, **variables}
        self.observed: list[ObservedCondition] = []
        self._client: Client | None = None
        self._changed = asyncio.Event()
        self._latest: Object | None = None
        """The App of the latest event; all its earlier conditions are in `observed`."""
        self._written = 0

    @property
    def machine(self) -> InstanceDirectory:
        return LimaHome(self.instance.lima_home).directory("rd")

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @asynccontextmanager
    async def open(self, controllers: str = "*") -> AsyncIterator["Desktop"]:
        """Run a control plane while the block runs."""
        options = ServeOptions(
            secure_port=0, controllers=controllers, environment=self.environment, version="test"
        )
        async with control_plane(self.instance, options) as running:
            transport = LocalTransport(running.server.handle, partial(Request, user=ADMIN))
            self._client = Client(transport)
            self._latest = None
            observing = asyncio.create_task(self._observe())
            try:
                yield self
            finally:
                observing.cancel()
                await asyncio.gather(observing, return_exceptions=True)

    async def _observe(self) -> None:
        async with aclosing(self.client.list_and_watch(APPS)) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    for found in (event.object.get("status") or {}).get("conditions") or ():
                        condition = ObservedCondition(
                            found["type"], found["status"], found["reason"], found["message"]
                        )
                        if condition not in self.observed:
                            self.observed.append(condition)
                    self._latest = event.object
                elif event.type == "DELETED":
                    self._latest = None
                self._changed.set()

    # -- the App

    async def set(self, **spec: Any) -> Object:
        """Create the App or change these settings of it."""
        try:
            found = await self.client.patch(APPS, "app", {"spec": spec})
        except errors.NotFound:
            found = await self.client.create(
                APPS, {"metadata": {"name": "app"}, "spec": {"running": False, **spec}}
            )
        self._written = _version(found)
        return found

    async def app(self) -> Object:
        return await self.client.get(APPS, "app")

    async def until(self, what: str, condition: Callable[[Object], object]) -> Object:
        """Wait until a condition holds for the App, and return it."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    self._changed.clear()
                    found = self._latest
                    if found and _version(found) >= self._written and condition(found):
                        return found
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 0.5)
        except TimeoutError:
            raise AssertionError(f"{what} did not happen; observed: {self.observed[-8:]}") from None

    async def reached(self, type_: str, reason: str, status: str = "False") -> str:
        """Wait for a condition of the current generation of the App, and return its message."""

        def matches(obj: Object) -> bool:
            found = current(obj, type_)
            return (found.get("status"), found.get("reason")) == (status, reason)

        obj = await self.until(f"{type_}={status} ({reason})", matches)
        return str(current(obj, type_)["message"])

    async def settled(self, **spec: Any) -> Object:
        """Change settings, wait until the App is settled, and return it."""
        if spec:
            await self.set(**spec)
        return await self.until(
            "Settled", lambda obj: current(obj, "Settled").get("status") == "True"
        )

    async def delete(self) -> None:
        """Delete the App, if there is one, and wait until it is gone."""
        try:
            await self.client.delete(APPS, "app")
        except errors.NotFound:
            return
        await self.wait_gone(APPS, "app")

    async def wait_gone(self, resource: ApiResource, name: str, namespace: str = "") -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    await self.client.get(resource, name, namespace=namespace)
                except errors.NotFound:
                    return
                await asyncio.sleep(0.02)

    async def annotate(self, name: str, value: str | None) -> None:
        """Annotate the machine of the App."""
        patch = {"metadata": {"annotations": {name: value}}}
        await self.client.patch(LIMAVMS, "rd", patch, namespace="default")

    async def hide_controllers(self) -> None:
        """Delete the list of enabled controllers, as a user might."""
        await self.client.delete(
            CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
        )

    # -- processes and files

    def pids(self, program: str) -> list[int]:
        """Return the processes of a program with a path of this home in their command line."""
        mark = str(self.home).encode()
        return [
            pid
            for pid, words in processes()
            if Path(os.fsdecode(words[0])).name == program and any(mark in word for word in words)
        ]

    def traces(self) -> list[str]:
        """Return everything that exists of the App besides the files of the control plane."""
        paths, mark = MachinePaths(self.machine), str(self.home)
        found = [
            f"process {pid} {words}"
            for pid, words in processes()
            if any(mark.encode() in word for word in words)
        ]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if f" {mark}" in line]
        found += [line for line in run("ip", "-o", "link").splitlines() if paths.link in line]
        found += [line for line in run("iptables-save").splitlines() if paths.comment in line]
        found += [str(path) for path in self.home.rglob("*") if path.is_socket()]
        found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**{paths.cgroup}")]
        found += [str(path) for path in self.home.glob(".docker/contexts/meta/*")]
        return found

    def agent(self) -> int:
        return int(self.machine.ha_pid.read_text())

    def install_k3s(self) -> None:
        path = program_of(RELEASE, self.environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        python = f"env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable}"
        path.write_text(f'#!/bin/sh\nexec {python} -m tests.k3s "$@"\n')
        path.chmod(0o755)

    def remove_k3s(self) -> None:
        program_of(RELEASE, self.environment).unlink(missing_ok=True)

    @property
    def kube_config(self) -> Path:
        return self.home / ".kube" / "config"

    async def clean(self) -> None:
        """Kill the processes and remove the devices that a failed test left."""
        mark = str(self.home).encode()
        for pid, words in processes():
            if any(mark in word for word in words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self.machine.exists():
            await cleanup(self.machine)


async def eventually(check: Callable[[], object]) -> None:
    """Wait for something that no object reports."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if check():
                return
            await asyncio.sleep(0.005)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def current(obj: Object, type_: str) -> Object:
    """Return a condition of the current generation; empty if it is stale."""
    found = find_condition((obj.get("status") or {}).get("conditions"), type_) or {}
    is_current = found.get("observedGeneration") == obj["metadata"]["generation"]
    return found if is_current else {}


@contextlib.contextmanager
def short_home() -> Iterator[Path]:
    """Create a home whose sockets have short paths."""
    path = Path(tempfile.mkdtemp(prefix="rdds", dir="/tmp"))
    try:
        yield path / "h"
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def desktop(controllers: str = "*", **variables: str) -> AsyncIterator[Desktop]:
    """Run a control plane in a home of its own, and remove everything afterwards."""
    with short_home() as home:
        home.mkdir()
        made = Desktop(home, **variables)
        try:
            async with made.open(controllers):
                yield made
        finally:
            await made.clean()
