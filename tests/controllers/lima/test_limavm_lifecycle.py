# SPDX-License-Identifier: Apache-2.0
"""The life of a LimaVM: creation, running, restarts, resets, deletion."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.controllers.controller_world import event_about, gone
from tests.controllers.lima.limavm_world import (
    LIMAVMS,
    TEMPLATE,
    WITH_PARAM,
    FakeMachines,
    VMWorld,
    condition,
    limavm,
    reported,
)
from tests.runtime.runtime_world import open_world, until

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.host.errors import HostError
from rdd.runtime import CLEANUP
from rdd.vm.clock_report import ClockReport
from rdd.vm.disk_report import FULL, LOW, DiskReport
from rdd.vm.errors import StartFailed
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.lifecycle.observation import Phase
from rdd.vm.problem import ADDRESS_IN_USE, Problem
from rdd.vm.template import TemplateError

pytestmark = pytest.mark.looptime


@pytest.fixture
async def vms(tmp_path: Path) -> AsyncIterator[VMWorld]:
    async with open_world() as world:
        yield VMWorld(world, FakeMachines(tmp_path / "lima"))


@pytest.fixture
async def managed(vms: VMWorld) -> AsyncIterator[VMWorld]:
    async with vms.managed():
        yield vms


# -- creation


async def test_limavm_becomes_an_instance_with_its_own_template(managed: VMWorld) -> None:
    await managed.source()
    made = await managed.create()
    assert made["metadata"]["finalizers"] == [CLEANUP]
    vm = await managed.until_reason("Stopped")
    assert reported(vm, "Created") == ("True", "Created", "Lima instance created successfully")
    assert reported(vm) == ("False", "Stopped", "Lima instance is stopped")
    copy = await managed.copy()
    assert copy["data"] == {"template": TEMPLATE}
    assert copy["metadata"]["labels"] == {"lima.rancherdesktop.io/template-configmap": "true"}
    assert copy["metadata"]["finalizers"] == ["rdd.rancherdesktop.io/owned-by-LimaVM"]
    (owner,) = copy["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("LimaVM", "vm", True)
    status = vm["status"]
    assert status["templateConfigMap"] == "vm-template"
    assert status["observedTemplateResourceVersion"] == copy["metadata"]["resourceVersion"]
    assert "restartCount" not in status
    assert "annotations" not in vm["metadata"]
    assert managed.machines.home.directory("vm").lima_yaml.read_text() == TEMPLATE


async def test_requested_driver_creates_the_instance(managed: VMWorld) -> None:
    await managed.source()
    wanted = limavm("vm", running=False)
    wanted["metadata"]["annotations"] = {names.DRIVER: "host"}
    await managed.client.create(LIMAVMS, wanted)
    await managed.until_reason("Created", "Created")
    await managed.create("other")
    await managed.until_reason("Created", "Created", name="other")
    assert managed.machines.drivers == ["host", ""]


async def test_source_can_be_deleted_after_the_creation(managed: VMWorld) -> None:
    await managed.source()
    await managed.create()
    await managed.client.delete(CONFIG_MAPS, "source", namespace="default")
    await managed.until_reason("Stopped")
    assert (await managed.copy())["data"] == {"template": TEMPLATE}


async def test_failed_creation_is_reported_and_retried(managed: VMWorld) -> None:
    managed.machines.errors["create"] = [HostError("no space left on device")] * 3
    await managed.source()
    await managed.create()
    vm = await managed.until_reason("CreateFailed", "Created")
    assert reported(vm, "Created") == ("False", "CreateFailed", "no space left on device")
    began = asyncio.get_running_loop().time()
    vm = await managed.until_reason("Created", "Created")
    assert 6 < asyncio.get_running_loop().time() - began < 8  # 1 + 2 + 4 s
    assert len(managed.machines.called("create")) == 4


async def test_creation_reports_progress(managed: VMWorld) -> None:
    managed.machines.create_gate = asyncio.Event()
    await managed.source()
    await managed.create()
    vm = await managed.until(lambda vm: reported(vm, "Created")[2] == "downloading")
    assert reported(vm, "Created")[:2] == ("Unknown", "Pending")
    managed.machines.create_gate.set()
    await managed.until_reason("Created", "Created")


async def test_deletion_cancels_a_download(managed: VMWorld) -> None:
    managed.machines.create_gate = asyncio.Event()
    await managed.source()
    await managed.create()
    await until(lambda: managed.machines.called("create"))
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(managed.world, LIMAVMS, "vm")
    await gone(managed.world, CONFIG_MAPS, "vm-template")
    assert not managed.machines.home.directory("vm").exists()


@pytest.mark.parametrize("is_created", [True, False])
async def test_interrupted_creation_is_cleaned_up(vms: VMWorld, is_created: bool) -> None:
    async with vms.managed():
        await vms.source()
        if not is_created:
            vms.machines.create_gate = asyncio.Event()
        await vms.create()
        if is_created:
            await vms.until_reason("Stopped")
        else:
            await until(lambda: vms.machines.called("create"))
    directory = vms.machines.home.directory("vm")
    directory.path.mkdir(exist_ok=True)
    directory.lima_yaml.write_text("half")
    directory.preparing.touch()
    (directory.path / "disk").touch()
    vms.machines.create_gate = None
    async with vms.managed():
        await until(lambda: not directory.preparing.exists())
        await vms.until_reason("Stopped")
        await until(lambda: directory.read_lima_yaml() == TEMPLATE)
    assert (directory.path / "disk").exists() == is_created


async def test_remains_of_a_failed_deletion_are_removed(vms: VMWorld) -> None:
    directory = vms.machines.home.directory("vm")
    directory.path.mkdir(parents=True)
    directory.lima_yaml.write_text("old")
    (directory.path / "disk").touch()
    vms.machines.alive["vm"] = InstanceStatus.RUNNING
    async with vms.managed():
        await vms.source()
        await vms.create()
        vm = await vms.until_reason("Stopped")
    assert reported(vm, "Created")[2] == "Lima instance created successfully"
    assert vms.machines.called("delete") == [("delete", "vm", 0)]
    assert not (directory.path / "disk").exists()


async def test_missing_instance_directory_is_recreated(managed: VMWorld) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    await managed.machines.delete("vm", grace_s=0, keep_logs_in=None, use_trash=False)
    await managed.run(True)
    await managed.until_reason("Started")
    assert len(managed.machines.called("create")) == 2
    assert await event_about(managed.world, "vm", "InstanceMissing")


# -- running


async def test_start_and_stop_report_the_documented_states(managed: VMWorld) -> None:
    managed.machines.is_slow = True
    await managed.source()
    await managed.create(running=True)
    vm = await managed.until_reason("Starting")
    assert reported(vm) == ("False", "Starting", "Lima instance is starting")
    await until(lambda: managed.machines.phase("vm").phase is Phase.STARTING)
    managed.machines.becomes("vm", Phase.RUNNING)
    vm = await managed.until_reason("Started")
    assert reported(vm) == ("True", "Started", "Lima instance is running")
    assert vm["status"]["restartCount"] == 1
    assert vm["status"]["observedGeneration"] == vm["metadata"]["generation"]
    assert "observedGeneration" not in condition(vm, "Running")
    await managed.run(False)
    await until(lambda: managed.machines.called("stop"))
    assert reported(await managed.get())[1] == "Started"
    managed.machines.becomes("vm", Phase.STOPPED)
    vm = await managed.until_reason("Stopped")
    assert reported(vm) == ("False", "Stopped", "Lima instance stopped successfully")
    notes = await managed.changes("Running=False: Lima instance stopped successfully (Stopped)")
    assert notes == [
        "Created=Unknown: Reconciliation in progress (Pending)",
        "Created=True: Lima instance created successfully (Created)",
        "Running=Unknown: Verifying instance state after controller restart (Reconciling)",
        "Running=False: Lima instance is starting (Starting)",
        "Running=True: Lima instance is running (Started)",
        "Running=False: Lima instance stopped successfully (Stopped)",
    ]


async def test_start_after_a_stop_has_no_delay(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.run(False)
    await managed.until_reason("Stopped")
    began = asyncio.get_running_loop().time()
    await managed.run(True)
    await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert asyncio.get_running_loop().time() - began < 1


async def test_slow_stop_does_not_delay_other_machines(managed: VMWorld) -> None:
    await managed.source()
    await managed.create("slow", running=True)
    await managed.until_reason("Started", name="slow")
    managed.machines.is_slow = True
    await managed.run(False, "slow")
    await until(lambda: managed.machines.called("stop"))
    managed.machines.is_slow = False
    await managed.create("quick", running=True)
    await managed.until_reason("Started", name="quick")
    assert reported(await managed.get("slow"))[1] == "Started"


async def test_start_waits_for_a_running_stop(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.is_slow = True
    await managed.run(False)
    await until(lambda: managed.machines.called("stop"))
    changed = await managed.run(True)
    await asyncio.sleep(1)
    vm = await managed.get()
    assert vm["status"]["observedGeneration"] < changed["metadata"]["generation"]
    managed.machines.is_slow = False
    managed.machines.becomes("vm", Phase.STOPPED)
    vm = await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert reported(vm)[1] == "Started"
    assert vm["status"]["observedGeneration"] == changed["metadata"]["generation"]


async def test_degraded_condition_exists_while_degraded(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.becomes("vm", Phase.RUNNING, degraded=True, errors=("no k3s", "no dns"))
    vm = await managed.until_reason("Degraded", "Degraded")
    assert reported(vm, "Degraded") == ("True", "Degraded", "no k3s\nno dns")
    assert reported(vm)[1] == "Started"
    managed.machines.becomes("vm", Phase.RUNNING, degraded=False, errors=())
    await managed.until(lambda vm: not condition(vm, "Degraded"))


CLOCKS = [
    (ClockReport(), ("True", "Synchronized", "the guest's clock is within 1 s of this computer's")),
    (
        ClockReport(ahead_s=5, problem="it cannot be set"),
        ("False", "ClockOff", "the guest's clock is 5 s ahead: it cannot be set"),
    ),
    (
        ClockReport(set_at="2026-11-19T20:30:12Z", was_ahead_s=-63),
        (
            "True",
            "Synchronized",
            "the guest's clock is within 1 s of this computer's; "
            "it was 63 s behind and was set at 2026-11-19T20:30:12Z",
        ),
    ),
    (
        ClockReport(problem="it cannot be set: ssh ended"),
        ("Unknown", "NotMeasured", "the guest's clock: it cannot be set: ssh ended"),
    ),
]


async def test_clock_of_a_guest_is_a_condition_and_a_metric(vms: VMWorld) -> None:
    metric = "rdd_limavm_clock_offset_seconds"
    async with vms.managed() as manager:
        await vms.source()
        await vms.create(running=True)
        vm = await vms.until_reason("Started")
        assert not condition(vm, "ClockSynchronized")  # a machine without a clock of its own
        assert f"{metric}{{" not in manager.metrics.render()
        for report, expected in CLOCKS:
            assert ClockReport.from_data(report.to_data()) == report
            vms.machines.becomes("vm", Phase.RUNNING, clock=report)
            vm = await vms.until_reason(expected[1], "ClockSynchronized")
            assert reported(vm, "ClockSynchronized") == expected
            assert manager.metrics.value(metric, name="vm") == report.ahead_s
        await vms.run(False)
        vm = await vms.until_reason("Stopped")
        assert not condition(vm, "ClockSynchronized")
        await until(lambda: f"{metric}{{" not in manager.metrics.render())


async def test_ports_in_use_are_listed_while_degraded(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    problems = (
        Problem("6443 is in use", ADDRESS_IN_USE, "127.0.0.1:6443", 6443),
        Problem("/a is in use", ADDRESS_IN_USE, "/a"),
    )
    errors = tuple(problem.message for problem in problems)
    managed.machines.becomes("vm", Phase.RUNNING, degraded=True, errors=errors, problems=problems)
    vm = await managed.until_reason("Degraded", "Degraded")
    assert vm["status"]["unavailablePorts"] == [6443]
    managed.machines.becomes("vm", Phase.RUNNING, degraded=False, errors=(), problems=())
    vm = await managed.until(lambda vm: not condition(vm, "Degraded"))
    assert "unavailablePorts" not in vm["status"]


# -- failures


async def test_failed_start_is_retried_with_exponential_backoff(managed: VMWorld) -> None:
    failure = StartFailed("dockerd is missing: apt-get install docker.io", log_tail=("a", "b"))
    managed.machines.errors["start"] = [failure] * 4
    await managed.source()
    await managed.create(running=True)
    vm = await managed.until_reason("StartFailed")
    assert reported(vm)[2] == (
        "dockerd is missing: apt-get install docker.io (attempt 1, next in 1 s)\na\nb"
    )
    began = asyncio.get_running_loop().time()
    vm = await managed.until_reason("Started")
    assert 14 < asyncio.get_running_loop().time() - began < 17  # 1 + 2 + 4 + 8 s
    assert vm["status"]["restartCount"] == 1


async def test_unrelated_changes_do_not_shorten_the_backoff(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.run(False)
    await managed.until_reason("Stopped")
    managed.machines.errors["start"] = [StartFailed("no")] * 4
    await managed.run(True)
    await managed.until(lambda vm: "attempt 3, next in 4 s" in reported(vm)[2])
    calls = len(managed.machines.called("start"))
    await managed.annotate("example.com/note")
    await asyncio.sleep(3)
    assert len(managed.machines.called("start")) == calls
    await managed.until_reason("Started")


async def test_crash_loop_reports_attempt_and_log_tail(
    managed: VMWorld,
) -> None:
    managed.machines.is_slow = True
    await managed.source()
    await managed.create(running=True)
    for attempt in range(1, 4):
        await managed.until_reason("Starting")
        await until(lambda: managed.machines.phase("vm").phase is Phase.STARTING)
        managed.machines.ends("vm", "exit status 1", "level=fatal", f"try {attempt}")
        vm = await managed.until_reason("StartFailed")
        first, *tail = reported(vm)[2].split("\n")
        assert first.startswith(f"exit status 1 (attempt {attempt}, next in ")
        assert tail == ["level=fatal", f"try {attempt}"]


async def test_crash_after_a_stable_run_restarts_at_once(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    for count in range(1, 4):
        await managed.until(lambda vm, n=count: vm.get("status", {}).get("restartCount") == n)  # type: ignore[misc]
        await asyncio.sleep(61)
        began = asyncio.get_running_loop().time()
        managed.machines.ends("vm", "killed by SIGKILL")
        await managed.until(lambda vm, n=count: vm.get("status", {}).get("restartCount") == n + 1)  # type: ignore[misc]
        assert asyncio.get_running_loop().time() - began < 1


async def test_new_template_resets_the_backoff(managed: VMWorld) -> None:
    managed.machines.errors["start"] = [StartFailed("no")] * 7
    await managed.source()
    await managed.create(running=True)
    await managed.until(lambda vm: "attempt 7, next in 60 s" in reported(vm)[2])
    began = asyncio.get_running_loop().time()
    await managed.edit("vmType: host\nmessage: two\n")
    await managed.until_reason("Started")
    assert asyncio.get_running_loop().time() - began < 1


async def test_failed_stop_is_reported_and_retried(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.is_slow = True
    await managed.run(False)
    await until(lambda: managed.machines.called("stop"))
    managed.machines.alive["vm"] = InstanceStatus.BROKEN
    managed.machines.becomes("vm", Phase.STOPPED, stop_error="process 7 does not end")
    vm = await managed.until_reason("StopFailed")
    assert reported(vm) == ("False", "StopFailed", "process 7 does not end")
    managed.machines.is_slow = False
    managed.machines.alive["vm"] = InstanceStatus.RUNNING
    await managed.until_reason("Stopped")
    assert len(managed.machines.called("stop")) == 2


async def test_unreadable_directory_is_reported(
    managed: VMWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    exists = Path.exists

    def refuse(path: Path) -> bool:
        if path.name == ".preparing":
            raise PermissionError(13, "Permission denied")
        return exists(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", refuse)
        await managed.annotate(names.RESTART_REQUESTED)
        vm = await managed.until_reason("Degraded", "Degraded")
        assert '/vm/.preparing": Permission denied' in reported(vm, "Degraded")[2]
        assert reported(vm)[1] == "Started"
    vm = await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert not condition(vm, "Degraded")


async def test_unreadable_disk_is_reported(managed: VMWorld) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    read = managed.machines.template_text

    def fail(name: str) -> str | None:
        raise HostError("failed to read lima.yaml: Input/output error")

    managed.machines.template_text = fail  # type: ignore[method-assign]
    await managed.run(True)
    vm = await managed.until_reason("StartFailed")
    assert reported(vm)[2] == "failed to read lima.yaml: Input/output error"
    managed.machines.template_text = read  # type: ignore[method-assign]
    await managed.until_reason("Started")


# -- restarts


async def test_restart_is_graceful_and_counted(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.is_slow = True
    await managed.annotate(names.RESTART_REQUESTED)
    vm = await managed.until(lambda vm: vm["status"].get("restartNeeded"))
    await until(lambda: managed.machines.called("stop"))
    vm = await managed.get()
    assert names.RESTART_REQUESTED not in (vm["metadata"].get("annotations") or {})
    managed.machines.is_slow = False
    managed.machines.becomes("vm", Phase.STOPPED)
    vm = await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert "restartNeeded" not in vm["status"]
    await managed.changes("Running=False: Stopped for restart (Stopped)")


async def test_restart_of_a_stopped_machine_is_a_no_op(managed: VMWorld) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    await managed.annotate(names.RESTART_REQUESTED)
    vm = await managed.until(lambda vm: not vm["metadata"].get("annotations"))
    vm = await managed.until(lambda vm: "restartNeeded" not in vm["status"])
    assert reported(vm)[1] == "Stopped"
    assert not managed.machines.called("start")


async def test_new_template_restarts_the_machine(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    before = await managed.until_reason("Started")
    for i in range(5):
        copy = await managed.edit(f"vmType: host\nmessage: number {i}\n")
    vm = await managed.until(
        lambda vm: (
            vm["status"]["observedTemplateResourceVersion"] == copy["metadata"]["resourceVersion"]
            and reported(vm)[1] == "Started"
        )
    )
    assert vm["status"]["restartCount"] > before["status"]["restartCount"]
    assert "number 4" in managed.machines.home.directory("vm").lima_yaml.read_text()
    assert "restartNeeded" not in vm["status"]


async def test_template_that_cannot_be_applied_is_reported(
    managed: VMWorld,
) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    problem = TemplateError(["disk: 1 must not be less than now, 2: no disk shrinks"])
    managed.machines.errors["write_template"] = [problem] * 100
    await managed.edit("vmType: host\nmessage: two\n")
    vm = await managed.until_reason("Degraded", "Degraded")
    assert reported(vm, "Degraded")[2] == f"the template is not applied: {problem}"
    assert "restartNeeded" not in vm["status"]
    assert not managed.machines.called("stop")
    managed.machines.errors.clear()
    await managed.annotate("reconcile", "again")
    await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    vm = await managed.until(lambda vm: not condition(vm, "Degraded"))
    copy = await managed.copy()
    version = copy["metadata"]["resourceVersion"]
    assert vm["status"]["observedTemplateResourceVersion"] == version


async def test_new_template_of_a_stopped_machine_is_applied(managed: VMWorld) -> None:
    await managed.source()
    await managed.create()
    await managed.until_reason("Stopped")
    copy = await managed.edit("vmType: host\nmessage: two\n")
    version = copy["metadata"]["resourceVersion"]
    await managed.until(lambda vm: vm["status"]["observedTemplateResourceVersion"] == version)
    assert "two" in managed.machines.home.directory("vm").lima_yaml.read_text()


async def test_changed_params_restart_the_machine(managed: VMWorld) -> None:
    await managed.source(WITH_PARAM)
    await managed.create(running=True, params={"GREETING": "hi"})
    await managed.until_reason("Started")
    yaml = managed.machines.home.directory("vm").lima_yaml
    assert "GREETING: hi" in yaml.read_text()
    changed = await managed.patch({"spec": {"params": {"GREETING": "moin"}}})
    await managed.until(
        lambda vm: (
            vm["status"]["observedGeneration"] == changed["metadata"]["generation"]
            and reported(vm)[1] == "Started"
        )
    )
    assert (await managed.get())["status"]["restartCount"] == 2
    assert "GREETING: moin" in yaml.read_text()
    await managed.patch({"spec": {"params": None}})
    await managed.until(lambda vm: vm["status"]["restartCount"] == 3)
    assert yaml.read_text() == WITH_PARAM


async def test_reset_recreates_the_instance(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    disk = managed.machines.home.directory("vm").path / "disk"
    disk.touch()
    await managed.annotate(names.RESET_REQUESTED)
    vm = await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert names.RESET_REQUESTED not in (vm["metadata"].get("annotations") or {})
    assert reported(vm, "Created")[1] == "Created"
    assert not disk.exists()
    await managed.changes("Running=False: Stopped for reset (Stopped)")


# -- the end of the daemon


async def test_graceful_end_stops_machines_and_reports_it(vms: VMWorld) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        await vms.until_reason("Started")
    vm = await vms.get()
    assert vms.machines.called("drain")
    assert reported(vm) == ("False", "Stopped", "Lima instance stopped successfully")
    async with vms.managed():
        await vms.until(lambda vm: vm["status"]["restartCount"] == 2)


async def test_machine_is_adopted_after_a_crash(vms: VMWorld) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        vm = await vms.until_reason("Started")
    await vms.client.patch(
        LIMAVMS, "vm", {"status": vm["status"]}, namespace="default", subresource="status"
    )
    vms.machines.alive["vm"] = InstanceStatus.RUNNING  # a crash does not drain
    async with vms.managed():
        vm = await vms.until(lambda vm: vm["status"]["restartCount"] == 2)
        assert vms.machines.called("adopt") == [("adopt", "vm")]
        assert len(vms.machines.called("start")) == 1
        await vms.changes(
            "Running=Unknown: Verifying instance state after controller restart (Reconciling)",
            "Running=True: Lima instance is running (Started)",
        )


async def test_running_machine_is_not_reported_as_starting_during_adoption(vms: VMWorld) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        vm = await vms.until_reason("Started")
    await vms.client.patch(
        LIMAVMS, "vm", {"status": vm["status"]}, namespace="default", subresource="status"
    )
    vms.machines.alive["vm"] = InstanceStatus.RUNNING
    vms.machines.is_slow = True
    async with vms.managed():
        # The stale condition is reverted before the manager has started.
        assert reported(await vms.get())[:2] == ("Unknown", "Reconciling")
        await until(lambda: vms.machines.phase("vm").phase is Phase.STARTING)
        await vms.annotate("reconcile", "again")
        await asyncio.sleep(1)
        assert reported(await vms.get())[:2] == ("Unknown", "Reconciling")
        vms.machines.becomes("vm", Phase.RUNNING)
        vm = await vms.until_reason("Started")
        assert vm["status"]["restartCount"] == 2
        notes = await vms.changes("Running=True: Lima instance is running (Started)")
        assert len([note for note in notes if "Starting" in note]) == 1  # the first time


async def test_booting_machine_is_reported_as_starting_during_adoption(vms: VMWorld) -> None:
    vms.machines.is_slow = True
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        vm = await vms.until_reason("Starting")
    await vms.client.patch(
        LIMAVMS, "vm", {"status": vm["status"]}, namespace="default", subresource="status"
    )
    vms.machines.alive["vm"] = InstanceStatus.RUNNING
    async with vms.managed():
        await until(lambda: vms.machines.called("adopt"))
        await vms.until_reason("Starting")
        vms.machines.becomes("vm", Phase.RUNNING)
        await vms.until_reason("Started")


async def test_machine_that_cannot_be_adopted_is_restarted(vms: VMWorld) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        await vms.until_reason("Started")
    vms.machines.alive["vm"] = InstanceStatus.BROKEN
    vms.machines.adopts = False
    async with vms.managed():
        await until(lambda: vms.machines.called("stop"))
        vms.machines.alive["vm"] = InstanceStatus.STOPPED
        await vms.until(lambda vm: vm["status"]["restartCount"] == 2)
        assert len(vms.machines.called("start")) == 2


async def test_surviving_machine_that_should_be_stopped_is_stopped(vms: VMWorld) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        await vms.until_reason("Started")
        vms.machines.is_slow = True
        await vms.run(False)
        await until(lambda: vms.machines.called("stop"))
    vms.machines.alive["vm"] = InstanceStatus.RUNNING
    vms.machines.is_slow = False
    async with vms.managed():
        await vms.until_reason("Stopped")
        await until(lambda: vms.machines.called("stop"))
        assert not vms.machines.called("adopt")


async def test_crash_of_the_agent_does_not_restart_the_machine(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.ends("vm", "killed by SIGKILL", status=InstanceStatus.BROKEN)
    vm = await managed.until(lambda vm: vm["status"]["restartCount"] == 2)
    assert reported(vm)[1] == "Started"
    assert len(managed.machines.called("start")) == 1
    assert len(managed.machines.called("adopt")) == 1


async def test_adoption_keeps_a_pending_template_change(
    vms: VMWorld,
) -> None:
    async with vms.managed():
        await vms.source()
        await vms.create(running=True)
        await vms.until_reason("Started")
        vms.machines.is_slow = True
        await vms.edit("vmType: host\nmessage: two\n")
        await until(lambda: vms.machines.called("stop"))
    vms.machines.alive["vm"] = InstanceStatus.RUNNING
    vms.machines.is_slow = False
    async with vms.managed():
        await vms.until(lambda vm: vm["status"]["restartCount"] == 2)
        assert not vms.machines.called("adopt")
        assert len(vms.machines.called("start")) == 2
        assert "two" in vms.machines.home.directory("vm").lima_yaml.read_text()


# -- deletion


async def test_deletion_is_graceful_and_complete(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(managed.world, LIMAVMS, "vm")
    await gone(managed.world, CONFIG_MAPS, "vm-template")
    assert managed.machines.called("delete") == [("delete", "vm", 30.0)]
    assert not managed.machines.home.directory("vm").exists()


async def test_deletion_uses_the_grace_period_of_the_request(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    await managed.client.delete(LIMAVMS, "vm", namespace="default", grace_period_s=7)
    await gone(managed.world, LIMAVMS, "vm")
    assert managed.machines.called("delete") == [("delete", "vm", 7.0)]


async def test_shorter_grace_period_speeds_up_a_running_deletion(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.is_slow = True
    await managed.annotate("lima.rancherdesktop.io/deletionGracePeriodSeconds", "600")
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    await until(lambda: managed.machines.called("delete"))
    began = asyncio.get_running_loop().time()
    await managed.annotate("lima.rancherdesktop.io/deletionGracePeriodSeconds", "0")
    await gone(managed.world, LIMAVMS, "vm")
    assert asyncio.get_running_loop().time() - began < 60
    assert [call[2] for call in managed.machines.called("delete")] == [600.0, 0.0]


async def test_failed_deletion_keeps_the_finalizer_and_is_retried(
    managed: VMWorld,
) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.errors["delete"] = [HostError("device is busy")]
    await managed.client.delete(LIMAVMS, "vm", namespace="default")
    vm = await managed.until_reason("StopFailed")
    assert reported(vm)[2] == "device is busy"
    assert CLEANUP in vm["metadata"]["finalizers"]
    await gone(managed.world, LIMAVMS, "vm")


# -- the disk of a guest

SPACE = DiskReport(point="/", total_bytes=4 << 30, free_bytes=1 << 30)
DISKS = [
    (SPACE, {}),
    (
        replace(SPACE, free_bytes=300 << 20),
        {"DiskPressure": ("True", LOW, "/: 300.0 MiB of 4.0 GiB are free")},
    ),
    (
        replace(SPACE, free_bytes=0, problem="fstrim failed: no"),
        {
            "DiskPressure": ("True", FULL, "/: 0 B of 4.0 GiB are free"),
            "DiskTrimmed": ("False", "TrimFailed", "fstrim failed: no"),
        },
    ),
    (
        replace(SPACE, trimmed_at="2026-11-20T00:00:01Z", returned_bytes=500 << 20),
        {
            "DiskTrimmed": (
                "True",
                "Trimmed",
                "500.0 MiB were given back at 2026-11-20T00:00:01Z",
            )
        },
    ),
]


def disk_conditions(vm: Object) -> dict[str, tuple[str, str, str]]:
    found = ("DiskPressure", "DiskTrimmed")
    return {type_: reported(vm, type_) for type_ in found if condition(vm, type_)}


def has_disk_conditions(expected: dict[str, tuple[str, str, str]], vm: Object) -> bool:
    return disk_conditions(vm) == expected


async def test_disk_of_a_guest_is_reported_while_it_runs(managed: VMWorld) -> None:
    await managed.source()
    await managed.create(running=True)
    await managed.until_reason("Started")
    for report, expected in (*DISKS, *DISKS[2:3]):
        managed.machines.becomes("vm", Phase.RUNNING, disk=report)
        await managed.until(partial(has_disk_conditions, expected))
    await managed.run(False)
    assert disk_conditions(await managed.until_reason("Stopped")) == {}


GUEST = "vmType: qemu\nimages: [{location: /a.qcow2, arch: x86_64}]\n"


async def applied(managed: VMWorld, text: str) -> Object:
    """Change the template; return the LimaVM once that is in effect."""
    version = (await managed.edit(text))["metadata"]["resourceVersion"]
    return await managed.until(
        lambda vm: (
            vm["status"]["observedTemplateResourceVersion"] == version
            and reported(vm)[1] == "Started"
            and "restartNeeded" not in vm["status"]
        )
    )


async def test_larger_disk_alone_needs_no_restart(managed: VMWorld) -> None:
    await managed.source(f"{GUEST}disk: 20GiB\n")
    await managed.create(running=True)
    await managed.until_reason("Started")
    vm = await applied(managed, f"{GUEST}disk: 30GiB\n")
    assert (len(managed.machines.called("grow")), vm["status"]["restartCount"]) == (1, 1)
    vm = await applied(managed, f"{GUEST}disk: 40GiB\ncpus: 2\n")
    assert (len(managed.machines.called("grow")), vm["status"]["restartCount"]) == (1, 2)


async def test_machine_that_cannot_grow_its_disk_restarts(managed: VMWorld) -> None:
    await managed.source(GUEST)  # 100 GiB
    await managed.create(running=True)
    await managed.until_reason("Started")
    managed.machines.errors["grow"] = [HostError("growpart is missing in the guest")]
    vm = await applied(managed, f"{GUEST}disk: 120GiB\n")
    assert (len(managed.machines.called("grow")), vm["status"]["restartCount"]) == (1, 2)
