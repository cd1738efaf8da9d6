# SPDX-License-Identifier: Apache-2.0
"""Creation and deletion of instances: all or nothing."""

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.vm.machine_world import World

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Availability
from rdd.vm.instance_dir import InstanceDirectory, InvalidName
from rdd.vm.machines import (
    InstanceStatus,
    MachineExists,
    NotCreated,
    Phase,
    StopFailed,
    TemplateError,
)
from rdd.vm.template import Template


async def test_instance_has_limas_files_and_a_recorded_driver(world: World) -> None:
    directory = await world.create()
    assert directory.lima_yaml.read_text() == "vmType: host\n"
    assert (directory.path / "lima-version").read_text() == "2.1.0\n"
    assert json.loads(directory.record.read_text())["driver"] == directory.driver == "host"
    assert (directory.path / "disk").exists()
    assert not directory.preparing.exists()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert world.machines.inspect("vm") is InstanceStatus.STOPPED
    assert world.progress == ["half of it"]


async def test_rejects_an_existing_instance(world: World) -> None:
    await world.create()
    with pytest.raises(MachineExists, match='machine "vm" already exists'):
        await world.create()
    assert world.directory().lima_yaml.exists()


@pytest.mark.parametrize("name", ["", "_config", "a b", "../x", "a..b", "-a", "a-", "a" * 77])
async def test_rejects_an_invalid_name(world: World, name: str) -> None:
    with pytest.raises(InvalidName, match="allowed are letters and digits, separated by single"):
        await world.create(name)


async def test_invalid_template_leaves_nothing(world: World) -> None:
    with pytest.raises(TemplateError, match='line 1: cpu: unknown key, did you mean "cpus"'):
        await world.machines.create("vm", "cpu: 1", progress=print)
    assert world.home.names() == []


async def test_failed_preparation_leaves_nothing_and_can_be_retried(world: World) -> None:
    async def fail(_directory: InstanceDirectory) -> None:
        raise HostError("disk full")

    world.provider.prepare_with = fail
    with pytest.raises(HostError, match="disk full"):
        await world.create()
    assert list(world.home.path.iterdir()) == []
    assert world.provider.calls == ["prepare vm", "cleanup vm"]
    world.provider.prepare_with = None
    await world.create()


async def test_cancelled_creation_leaves_nothing(world: World) -> None:
    began = asyncio.Event()

    async def wait(_directory: InstanceDirectory) -> None:
        began.set()
        await asyncio.Event().wait()

    world.provider.prepare_with = wait
    task = asyncio.create_task(world.create())
    await began.wait()
    assert world.directory().preparing.exists()
    assert world.machines.inspect("vm") is InstanceStatus.UNINITIALIZED
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(world.home.path.iterdir()) == []


async def test_deletion_waits_for_a_cancelled_creation(world: World) -> None:
    began = asyncio.Event()

    async def wait(_directory: InstanceDirectory) -> None:
        began.set()
        await asyncio.Event().wait()

    world.provider.prepare_with = wait
    task = asyncio.create_task(world.create())
    await began.wait()
    task.cancel()
    await world.machines.delete("vm", grace_s=0)
    assert task.cancelled()
    assert list(world.home.path.iterdir()) == []


@pytest.mark.parametrize("left", ["", ".preparing", ".preparing lima.yaml rdd.json", "rdd.json"])
async def test_remains_of_an_interrupted_creation_are_replaced(world: World, left: str) -> None:
    path = world.directory().path
    path.mkdir(parents=True)
    for name in left.split():
        (path / name).write_text("{")
    assert world.machines.inspect("vm") is InstanceStatus.UNINITIALIZED
    await world.create()
    assert world.machines.inspect("vm") is InstanceStatus.STOPPED


async def test_missing_driver_is_reported_with_reason_and_fix(world: World) -> None:
    world.provider.usable = False
    with pytest.raises(
        HostError, match=r"^no driver can run this machine: host: no kernel \(buy one\)$"
    ):
        await world.create()
    assert world.home.names() == []


async def test_rejects_a_forwarded_socket_path_that_is_too_long(world: World) -> None:
    text = f"vmType: host\nportForwards: [{{guestSocket: /a, hostSocket: {'x' * 100}}}]"
    with pytest.raises(HostError, match="bytes, which must be less than 104"):
        await world.machines.create("vm", text, progress=print)


async def test_unwritable_directory_is_named(world: World) -> None:
    world.home.path.write_text("a file")
    with pytest.raises(HostError, match=f'"{world.home.path}" is not a directory'):
        await world.create()


async def test_deletion_shuts_the_machine_down(world: World, tmp_path: Path) -> None:
    directory = await world.create()
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    await world.machines.delete("vm", grace_s=30, keep_logs_in=tmp_path / "logs")
    assert not directory.exists() and world.processes() == []
    assert '"exiting": true' in (tmp_path / "logs" / "vm" / "ha.stdout.log").read_text()
    assert world.machines.phase("vm").phase is Phase.UNKNOWN
    assert list(world.home.path.iterdir()) == []


async def test_kept_logs_do_not_replace_older_ones(world: World, tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        directory = await world.create()
        directory.ha_stderr.write_text(text)
        await world.machines.delete("vm", keep_logs_in=tmp_path)
    kept = [(tmp_path / name / "ha.stderr.log").read_text() for name in ("vm", "vm.1", "vm.2")]
    assert kept == ["first", "second", "third"]


async def test_deletion_without_grace_kills(world: World) -> None:
    await world.create(stop_s=600)
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    await world.machines.delete("vm", grace_s=0)
    assert world.processes() == [] and world.home.names() == []


async def test_deletion_shortens_a_stop_in_progress(world: World) -> None:
    await world.create(ignores_sigint=True)
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    world.machines.stop("vm", grace_s=600)
    await world.machines.delete("vm", grace_s=0)
    assert world.processes() == [] and world.home.names() == []


async def test_deletion_can_be_retried_after_a_failed_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> list[str]:
        return ["process 7 still runs"]

    await world.create(ignores_sigint=True)
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    with monkeypatch.context() as patch:
        patch.setattr("rdd.vm.lifecycle.stop.kill_all", fail)
        with pytest.raises(StopFailed, match="process 7 still runs"):
            await world.machines.delete("vm", grace_s=0)
    assert world.directory().ha_pid.exists()
    await world.machines.delete("vm", grace_s=0)
    assert world.processes() == [] and world.home.names() == []


async def test_deletion_is_idempotent(world: World) -> None:
    await world.machines.delete("vm", grace_s=0)


async def test_protected_machine_is_not_deleted(world: World) -> None:
    directory = await world.create()
    (directory.path / "protected").touch()
    with pytest.raises(HostError, match=r'machine "vm" is protected; remove ".*/protected" first'):
        await world.machines.delete("vm")
    assert world.machines.inspect("vm") is InstanceStatus.STOPPED


async def test_sweep_finishes_interrupted_deletions(world: World) -> None:
    await world.create()
    left = world.home.path / ".vm.deleting"
    (left / "deep").mkdir(parents=True)
    (world.home.path / ".other.creating").mkdir()
    await world.machines.sweep()
    assert [path.name for path in world.home.path.iterdir()] == ["vm"]
    assert world.home.names() == ["vm"]
    left.mkdir()
    await world.machines.delete("vm", grace_s=0)
    assert list(world.home.path.iterdir()) == []


async def test_availability_is_probed_in_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    answer = world.provider.availability

    def availability(environment: Mapping[str, str], template: Template) -> Availability:
        threads.append(threading.current_thread())
        return answer(environment, template)

    monkeypatch.setattr(world.provider, "availability", availability)
    await world.create()
    assert threads
    assert threading.main_thread() not in threads


async def test_template_of_an_instance_can_be_changed(world: World) -> None:
    directory = await world.create()
    world.machines.write_template("vm", "vmType: host\ndisk: 200GiB\n")
    assert world.machines.template_text("vm") == "vmType: host\ndisk: 200GiB\n"
    assert directory.template().disk == 200 << 30


async def test_broken_template_can_be_replaced(world: World) -> None:
    directory = await world.create()
    directory.lima_yaml.write_text("cpus: x")
    world.machines.write_template("vm", "cpus: 1\n")
    assert directory.template().cpus == 1


async def test_invalid_template_does_not_replace_the_current_one(world: World) -> None:
    await world.create()
    with pytest.raises(HostError, match="disk: 1073741824 is less than the current size"):
        world.machines.write_template("vm", "disk: 1GiB")
    with pytest.raises(TemplateError):
        world.machines.write_template("vm", "cpus: x")
    with pytest.raises(NotCreated):
        world.machines.write_template("other", "cpus: 1")
    assert world.machines.template_text("vm") == "vmType: host\n"


async def test_missing_template_can_be_written_again(world: World) -> None:
    directory = await world.create()
    directory.lima_yaml.unlink()
    world.machines.write_template("vm", "vmType: host\ncpus: 1\n")
    assert directory.template().cpus == 1
    directory.lima_yaml.unlink()
    directory.preparing.touch()
    with pytest.raises(NotCreated):
        world.machines.write_template("vm", "cpus: 1\n")


async def test_instance_is_kept_if_it_cannot_be_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/x")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", refuse)
        with pytest.raises(HostError, match='failed to remove "/x": Permission denied'):
            await world.machines.delete("vm")
    await world.machines.delete("vm")
    assert list(world.home.path.iterdir()) == []
