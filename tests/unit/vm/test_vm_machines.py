# SPDX-License-Identifier: Apache-2.0
"""Machines: start, monitor, stop, with real processes and a fake agent."""

import json
import os
import signal

import pytest
from tests.programs import start_program
from tests.unit.vm.machine_world import World

from rdd.host.exits import ended_within
from rdd.host.processes import Identity, identity, is_alive
from rdd.vm.machines import Busy, InstanceStatus, NotCreated, Phase, StartFailed
from rdd.vm.process_files import write_pid_file


async def start(world: World, name: str = "vm", **behaviour: object) -> Identity:
    """Start a machine; return its agent."""
    directory = await world.create(name, **behaviour)
    await world.machines.start(name)
    await world.until_phase(Phase.RUNNING, name)
    agent = directory.agent()
    assert agent is not None
    return agent


async def test_started_machine_is_monitored_until_it_runs(world: World) -> None:
    await world.create()
    assert world.machines.phase("vm").phase is Phase.UNKNOWN
    await world.machines.start("vm")
    seen = await world.until_phase(Phase.RUNNING)
    assert seen.ssh_local_port == 60022
    assert not seen.degraded and not seen.is_stop_requested
    assert world.machines.inspect("vm") is InstanceStatus.RUNNING


async def test_agent_has_its_own_process_group(world: World) -> None:
    agent = await start(world)
    assert os.getpgid(agent.pid) == agent.pid != os.getpgid(0)


async def test_start_of_a_running_machine_is_idempotent(world: World) -> None:
    agent = await start(world)
    await world.machines.start("vm")
    assert world.directory().agent() == agent


async def test_rejects_start_of_a_machine_that_is_not_created(world: World) -> None:
    with pytest.raises(NotCreated, match='machine "vm" is not created'):
        await world.machines.start("vm")


async def test_start_failure_has_exit_code_and_log_tail(
    world: World,
) -> None:
    await world.create(exit=3)
    with pytest.raises(StartFailed) as caught:
        await world.machines.start("vm")
    assert str(caught.value) == "the host agent ended with exit code 3: no disk"
    assert caught.value.exit_code == 3
    assert caught.value.log_tail == ("no disk",)
    assert world.processes() == []


async def test_agent_without_a_pid_file_is_ended_after_the_timeout(world: World) -> None:
    directory = await world.create(no_pid=True)
    world.machines = world.new_daemon(pid_file_s=0.5)
    with pytest.raises(StartFailed, match=r'did not write ".*ha\.pid" within 0\.5 s'):
        await world.machines.start("vm")
    (pid,) = (directory.path / "agents").read_text().split()
    assert identity(int(pid)) is None


async def test_start_can_be_retried_after_a_failure(world: World) -> None:
    await world.create(exit=1)
    with pytest.raises(StartFailed):
        await world.machines.start("vm")
    world.behave()
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)


async def test_missing_agent_program_is_named(world: World) -> None:
    await world.create()
    world.machines._agent_command = ("/nowhere/agent",)
    with pytest.raises(Exception, match='failed to start "/nowhere/agent": No such file'):
        await world.machines.start("vm")


async def test_logs_of_the_previous_run_are_rotated(world: World) -> None:
    directory = await world.create()
    for name in ("ha.stdout", "ha.stderr", "serial"):
        (directory.path / f"{name}.log").write_text("before")
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    names = {path.name for path in directory.path.glob("*.log")}
    assert names == {
        "ha.stdout.log",
        "ha.stdout.1.log",
        "ha.stderr.log",
        "ha.stderr.1.log",
        "serial.1.log",
    }
    assert "before" not in directory.ha_stdout.read_text()


async def test_logs_begin_with_the_title_of_the_run(world: World) -> None:
    directory = await world.create()
    world.environment["RDD_LOG_TITLE"] = "a test"
    await world.machines.start("vm")
    await world.until_phase(Phase.RUNNING)
    for log in (directory.ha_stdout, directory.ha_stderr):
        assert log.read_text().startswith('{"title":"a test"}\n')


async def test_degraded_machine_runs_and_reports_errors(world: World) -> None:
    status = {"running": True, "degraded": True, "errors": ["probe failed"]}
    await world.create(events=[status])
    await world.machines.start("vm")
    seen = await world.until_phase(Phase.RUNNING)
    assert seen.degraded and seen.errors == ("probe failed",)


async def test_forwards_are_observed_until_they_stop(world: World) -> None:
    forward = {"protocol": "tcp", "guestAddr": "0.0.0.0:80", "hostAddr": "127.0.0.1:80"}
    await world.create(
        events=[
            {"portForward": {**forward, "type": "forwarding"}},
            {"portForward": {**forward, "guestAddr": "0.0.0.0:81", "type": "forwarding"}},
            {"portForward": {**forward, "guestAddr": "0.0.0.0:81", "type": "stopping"}},
            {"running": True},
        ]
    )
    await world.machines.start("vm")
    (seen,) = (await world.until_phase(Phase.RUNNING)).forwards
    assert (seen.type, seen.guest_address, seen.host_address) == (
        "forwarding",
        "0.0.0.0:80",
        "127.0.0.1:80",
    )


async def test_stop_is_graceful_and_runs_in_the_background(world: World) -> None:
    agent = await start(world)
    directory = world.directory()
    driver = directory.driver_process()
    world.machines.stop("vm", grace_s=30)
    assert world.machines.phase("vm").phase is Phase.STOPPING
    seen = await world.until_phase(Phase.STOPPED)
    assert seen.is_stop_requested and not seen.crashed and not seen.reason and not seen.stop_error
    assert (directory.path / "stopped-gracefully").exists()
    assert not is_alive(agent)
    assert driver is not None and await ended_within(driver, 10)
    assert world.machines.inspect("vm") is InstanceStatus.STOPPED
    assert list(directory.path.glob("*.pid")) == list(directory.path.glob("*.sock")) == []


async def test_slow_stop_does_not_block_other_machines(world: World) -> None:
    await start(world, "slow", stop_s=30)
    world.machines.stop("slow", grace_s=60)
    await start(world, "fast")
    world.machines.stop("fast", grace_s=60)
    await world.until_phase(Phase.STOPPED, "fast")
    assert world.machines.phase("slow").phase is Phase.STOPPING
    world.machines.stop("slow", grace_s=0)
    await world.until_phase(Phase.STOPPED, "slow")


async def test_stop_timeout_kills_the_machine_and_its_helpers(world: World) -> None:
    agent = await start(world, ignores_sigint=True, fork_child=True)
    directory = world.directory()
    driver = directory.driver_process()
    child = identity(int((directory.path / "child").read_text()))
    assert driver is not None and child is not None
    world.machines.stop("vm", grace_s=0.2)
    seen = await world.until_phase(Phase.STOPPED)
    assert seen.reason == "it did not stop in time and was killed"
    for process in (agent, driver, child):
        assert await ended_within(process, 10)
    assert "cleanup vm" in world.provider.calls
    assert list(directory.path.glob("*.pid")) == list(directory.path.glob("*.sock")) == []


async def test_second_stop_shortens_the_timeout(world: World) -> None:
    await start(world, ignores_sigint=True)
    world.machines.stop("vm", grace_s=600)
    world.machines.stop("vm", grace_s=900)
    world.machines.stop("vm", grace_s=0)
    await world.until_phase(Phase.STOPPED)


async def test_failed_stop_keeps_files_and_reports_the_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await start(world, ignores_sigint=True)
    monkeypatch.setattr("rdd.vm.lifecycle.stop.kill_all", lambda *_, **__: _answer(["still runs"]))
    world.machines.stop("vm", grace_s=0)
    seen = await world.until(lambda seen: seen.stop_error)
    assert (seen.phase, seen.stop_error) == (Phase.RUNNING, "still runs")
    assert world.directory().agent() == agent
    monkeypatch.undo()


async def _answer(value: list[str]) -> list[str]:
    return value


async def test_rejects_start_during_a_stop(world: World) -> None:
    await start(world, ignores_sigint=True)
    world.machines.stop("vm", grace_s=600)
    with pytest.raises(Busy, match='machine "vm" is still stopping'):
        await world.machines.start("vm")
    with pytest.raises(Busy):
        await world.machines.adopt("vm")


async def test_crashed_agent_makes_the_machine_stopped_with_its_log_tail(
    world: World,
) -> None:
    await world.create(die_after=7, events=[{"running": True}])
    await world.machines.start("vm")
    seen = await world.until_phase(Phase.STOPPED)
    assert seen.crashed
    assert (seen.exit_code, seen.log_tail) == (7, ("gone wrong",))
    assert seen.reason == "the host agent ended with exit code 7"
    assert world.machines.inspect("vm") is InstanceStatus.BROKEN


async def test_killed_agent_is_distinguished_from_an_exit(world: World) -> None:
    agent = await start(world)
    os.kill(agent.pid, signal.SIGKILL)
    seen = await world.until_phase(Phase.STOPPED)
    assert seen.reason == "the host agent was killed by signal 9"
    assert seen.crashed and not seen.forwards


async def test_errors_of_an_ended_agent_become_the_reason(world: World) -> None:
    await world.create(die_after=1, events=[{"exiting": True, "errors": ["qemu crashed"]}])
    await world.machines.start("vm")
    seen = await world.until_phase(Phase.STOPPED)
    assert seen.reason == "the host agent ended with exit code 1: qemu crashed"


async def test_drain_stops_all_slow_machines_within_one_budget(world: World) -> None:
    names = ["a", "b", "c"]
    for name in names:
        await start(world, name, stop_s=1)
    await world.machines.drain(budget_s=20)
    assert all(world.machines.phase(name).phase is Phase.STOPPED for name in names)
    files = [world.directory(name).path / "stopped-gracefully" for name in names]
    times = [json.loads(file.read_text()) for file in files]
    assert max(time["began"] for time in times) < min(time["ended"] for time in times)


async def test_drain_kills_what_does_not_stop_within_the_budget(world: World) -> None:
    await start(world, ignores_sigint=True)
    await world.machines.drain(budget_s=5.2)
    assert world.machines.phase("vm").reason == "it did not stop in time and was killed"
    assert world.processes() == []


async def test_close_leaves_machines_running(world: World) -> None:
    agent = await start(world)
    driver = world.directory().driver_process()
    await world.machines.close()
    assert is_alive(agent) and driver is not None and is_alive(driver)


async def test_cancelled_stop_does_not_end_the_machine_by_force(world: World) -> None:
    agent = await start(world, ignores_sigint=True)
    world.machines.stop("vm", grace_s=0.5)
    await world.machines.close()
    assert is_alive(agent)


async def test_graceful_stop_of_an_orphaned_driver_starts_an_agent(world: World) -> None:
    agent = await start(world)
    os.kill(agent.pid, signal.SIGKILL)
    await world.until_phase(Phase.STOPPED)
    world.machines.stop("vm", grace_s=30)
    await world.until_phase(Phase.STOPPED)
    assert (world.directory().path / "stopped-gracefully").exists()
    assert world.processes() == []


async def test_reused_pid_is_ignored_and_not_signalled(world: World) -> None:
    directory = await world.create()
    with start_program(["sleep", "600"]) as stranger:
        found = identity(stranger.pid)
        assert found is not None
        write_pid_file(directory.ha_pid, Identity(found.pid, found.started + "1"))
        write_pid_file(directory.pid_file("host"), Identity(found.pid, found.started + "1"))
        assert world.machines.inspect("vm") is InstanceStatus.STOPPED
        assert await world.machines.adopt("vm") is False
        await world.machines.delete("vm", grace_s=0)
        assert is_alive(found)


async def test_rejects_start_with_a_socket_path_that_is_too_long(world: World) -> None:
    name = "a" * 76
    with pytest.raises(Exception, match=r"bytes, which must be less than 104: use a shorter name"):
        await world.create(name)
    assert world.home.names() == []
