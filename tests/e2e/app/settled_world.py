# SPDX-License-Identifier: Apache-2.0
"""A whole control plane in this process, with real machines below it, and everything its App said.

Only k3s is a stand-in (tests/k3s.py). Conditions are never written by a test: what an App
says is caused, and read from a watch that misses nothing.
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
from rdd.daemon.control_plane import ADMIN, ServeOptions
from rdd.daemon.stages import control_plane
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import find_condition, resource_of
from rdd.vm.drivers.host.k3s import cached_k3s
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.instance_dir import InstanceDirectory, LimaHome

ROOT = Path(__file__).parents[3]
RELEASE = "v1.33.7+k3s3"
VERSION = "1.33.7"
APPS, LIMAVMS = resource_of(App), resource_of(LimaVM)
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
TIMEOUT_S = 60.0


class Said(NamedTuple):
    """What a condition said once."""

    type: str
    status: str
    reason: str
    message: str


class Desk:
    """One home, control planes in it one after the other, and what the App said to whom."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.instance = Instance("2", home)
        self.environment = {"HOME": str(home), "PATH": PATH, **variables}
        self.heard: list[Said] = []
        self._client: Client | None = None
        self._changed = asyncio.Event()
        self._latest: Object | None = None
        """The App as the watch tells: what was said before has been heard."""
        self._written = 0

    @property
    def machine(self) -> InstanceDirectory:
        return LimaHome(self.instance.lima_home).directory("rd")

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @asynccontextmanager
    async def open(self, controllers: str = "*") -> AsyncIterator["Desk"]:
        """A control plane while the block runs."""
        options = ServeOptions(
            secure_port=0, controllers=controllers, environment=self.environment, version="test"
        )
        async with control_plane(self.instance, options) as running:
            transport = LocalTransport(running.server.handle, partial(Request, user=ADMIN))
            self._client = Client(transport)
            self._latest = None
            listening = asyncio.create_task(self._listen())
            try:
                yield self
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self) -> None:
        async with aclosing(self.client.list_and_watch(APPS)) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    for found in (event.object.get("status") or {}).get("conditions") or ():
                        said = Said(
                            found["type"], found["status"], found["reason"], found["message"]
                        )
                        if said not in self.heard:
                            self.heard.append(said)
                    self._latest = event.object
                elif event.type == "DELETED":
                    self._latest = None
                self._changed.set()

    # -- the App

    async def set(self, **spec: Any) -> Object:
        """Have an App with these settings; the others stay."""
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
        """The App once something is true of it."""
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
            raise AssertionError(f"{what} did not happen; said was: {self.heard[-8:]}") from None

    async def said(self, type_: str, reason: str, status: str = "False") -> str:
        """Wait until the App says this at its present generation; the message."""

        def says(obj: Object) -> bool:
            found = current(obj, type_)
            return (found.get("status"), found.get("reason")) == (status, reason)

        obj = await self.until(f"{type_}={status} ({reason})", says)
        return str(current(obj, type_)["message"])

    async def settled(self, **spec: Any) -> Object:
        """The App with these settings, once it is settled."""
        if spec:
            await self.set(**spec)
        return await self.until(
            "Settled", lambda obj: current(obj, "Settled").get("status") == "True"
        )

    async def delete(self) -> None:
        """Have no App."""
        try:
            await self.client.delete(APPS, "app")
        except errors.NotFound:
            return
        await self.gone(APPS, "app")

    async def gone(self, resource: ApiResource, name: str, namespace: str = "") -> None:
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
        """Remove the list of controllers, as a user might: nobody can tell who is at work."""
        await self.client.delete(
            CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
        )

    # -- what is below

    def pids(self, program: str) -> list[int]:
        """The processes of a program that have to do with this home."""
        mark = str(self.home).encode()
        return [
            pid
            for pid, words in processes()
            if Path(os.fsdecode(words[0])).name == program and any(mark in word for word in words)
        ]

    def traces(self) -> list[str]:
        """What there is of the App beside the files of the control plane."""
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
        path = cached_k3s(RELEASE, self.environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        python = f"env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable}"
        path.write_text(f'#!/bin/sh\nexec {python} -m tests.k3s "$@"\n')
        path.chmod(0o755)

    def remove_k3s(self) -> None:
        cached_k3s(RELEASE, self.environment).unlink(missing_ok=True)

    @property
    def kube_config(self) -> Path:
        return self.home / ".kube" / "config"

    async def clean(self) -> None:
        """End whatever a test that failed has left."""
        mark = str(self.home).encode()
        for pid, words in processes():
            if any(mark in word for word in words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self.machine.exists():
            await cleanup(self.machine)


async def happened(check: Callable[[], object], timeout_s: float = 20) -> None:
    """Wait for something that no object tells."""
    async with asyncio.timeout(timeout_s):
        while True:
            if check():
                return
            await asyncio.sleep(0.005)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def current(obj: Object, type_: str) -> Object:
    """A condition, if it speaks of the present generation."""
    found = find_condition((obj.get("status") or {}).get("conditions"), type_) or {}
    is_current = found.get("observedGeneration") == obj["metadata"]["generation"]
    return found if is_current else {}


@contextlib.contextmanager
def short_home() -> Iterator[Path]:
    """A home whose sockets have short paths."""
    path = Path(tempfile.mkdtemp(prefix="rdds", dir="/tmp"))
    try:
        yield path / "h"
    finally:
        shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def desk(controllers: str = "*", **variables: str) -> AsyncIterator[Desk]:
    """A home with a control plane in it; nothing of it is left."""
    with short_home() as home:
        home.mkdir()
        made = Desk(home, **variables)
        try:
            async with made.open(controllers):
                yield made
        finally:
            await made.clean()
