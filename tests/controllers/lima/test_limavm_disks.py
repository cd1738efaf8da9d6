# SPDX-License-Identifier: Apache-2.0
"""Suspending, clones, and snapshots over HTTP."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.controllers.lima.limavm_world import LIMAVMS, FakeMachines, VMWorld, limavm, reported
from tests.runtime.runtime_world import open_world

from rdd.api import names
from rdd.controllers.lima.limavm.disks import DiskEndpoint
from rdd.host.errors import HostError
from rdd.http.exchange import Exchange
from rdd.vm.errors import Busy, NotCreated
from rdd.vm.lifecycle.observation import Phase


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[VMWorld]:
    async with open_world() as world:
        vms = VMWorld(world, FakeMachines(tmp_path / "lima"))
        async with vms.managed():
            yield vms


@pytest.mark.looptime
async def test_stop_mode_suspend_keeps_the_memory(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.patch(
        {"metadata": {"annotations": {names.STOP_MODE: "suspend"}}, "spec": {"running": False}}
    )
    await managed.until_reason("Stopped")
    assert [call[0] for call in managed.machines.calls if call[0] in ("stop", "suspend")] == [
        "suspend"
    ]


@pytest.mark.looptime
async def test_failed_suspension_is_reported_and_a_stop_works(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.is_slow = True
    await managed.patch(
        {"metadata": {"annotations": {names.STOP_MODE: "suspend"}}, "spec": {"running": False}}
    )
    await managed.until(lambda vm: managed.machines.called("suspend"))
    managed.machines.becomes("vm", Phase.RUNNING, stop_error="its mounts use virtiofs")
    vm = await managed.until_reason("StopFailed")
    assert "its mounts use virtiofs" in reported(vm)[2]
    managed.machines.is_slow = False
    await managed.annotate(names.STOP_MODE, None)
    await managed.until_reason("Stopped")
    assert managed.machines.called("stop")


@pytest.mark.looptime
async def test_clone_is_created_from_another_disk(managed: VMWorld) -> None:
    await managed.source()
    body = limavm("copy", running=False)
    body["metadata"]["annotations"] = {names.CLONE_OF: "vm"}
    await managed.client.create(LIMAVMS, body)
    await managed.until_reason("Stopped", name="copy")
    assert managed.machines.called("create") == [("create", "copy", "vm")]


async def call(disks: DiskEndpoint, method: str, path: str) -> tuple[int, dict[str, object]]:
    exchange = cast(Exchange, SimpleNamespace(method=method))
    response = await disks.handle(exchange, path)
    assert response is not None
    return response.status, json.loads(response.body)


async def test_snapshots_are_created_and_listed(tmp_path: Path) -> None:
    machines = FakeMachines(tmp_path)
    disks = DiskEndpoint(lambda: machines)
    status, response = await call(disks, "POST", "/vm/snapshots/good")
    assert (status, response["snapshots"]) == (200, [{"name": "good"}])
    status, response = await call(disks, "GET", "/vm")
    assert (status, response["snapshots"]) == (200, [{"name": "good"}])


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        pytest.param(Busy("must be stopped"), 409, "Conflict", id="it runs"),
        pytest.param(NotCreated("no such machine"), 404, "NotFound", id="no machine"),
        pytest.param(HostError("disk is damaged"), 400, "BadRequest", id="anything else"),
    ],
)
async def test_failures_are_statuses(
    tmp_path: Path, error: Exception, code: int, reason: str
) -> None:
    machines = FakeMachines(tmp_path)
    machines.errors["snapshot"] = [error]
    status, response = await call(DiskEndpoint(lambda: machines), "POST", "/vm/snapshots/good")
    assert (status, response["reason"], response["message"]) == (code, reason, str(error))


@pytest.mark.parametrize("path", ["/vm/snapshots", "/vm/snapshots/a/b/c", "/vm/other"])
async def test_unknown_paths_are_not_found(tmp_path: Path, path: str) -> None:
    machines = FakeMachines(tmp_path)
    assert (await call(DiskEndpoint(lambda: machines), "POST", path))[0] == 404


async def test_starting_controller_is_unavailable() -> None:
    assert (await call(DiskEndpoint(lambda: None), "GET", "/vm"))[0] == 503
