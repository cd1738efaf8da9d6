# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of machines that limactl runs (a fake with real processes and files)."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.programs import run_program, start_program
from tests.unit.vm.drivers.lima_world import TEMPLATE, TIMEOUT_S, Lima, a_lima

from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.processes import is_alive
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import ShellRequest
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.machines import Phase, StartFailed


@pytest.fixture
async def lima(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lima]:
    async with a_lima(monkeypatch) as found:
        yield found


# Creation


async def test_created_instance_has_files_of_lima_and_rdd(lima: Lima) -> None:
    directory = await lima.create()
    assert directory.driver == "lima"
    assert directory.status() is InstanceStatus.STOPPED
    assert (directory.path / "diffdisk").exists()
    assert (directory.path / "lima-version").read_text() == "2.1.1"
    assert [path.name for path in lima.home.path.iterdir()] == ["vm"]
    assert not directory.preparing.exists()
    image = "Attempting to download the image https://example.com/disk.qcow2"
    assert image in lima.progress


async def test_template_is_unchanged_after_limactl_rewrote_it(lima: Lima) -> None:
    directory = await lima.create(f"# mine\n{TEMPLATE}")
    assert directory.read_lima_yaml() == f"# mine\n{TEMPLATE}"


@pytest.mark.parametrize("when", ["create", "create late"])
async def test_failed_creation_has_limactls_message_and_leaves_nothing(
    lima: Lima, when: str
) -> None:
    lima.behave(fail={when: "failed to download\nno route to host"})
    with pytest.raises(HostError, match=r"^limactl create failed: .* / failed to download; no rou"):
        await lima.create()
    assert list(lima.home.path.iterdir()) == []


async def test_template_rejected_by_lima_has_every_problem(lima: Lima) -> None:
    with pytest.raises(HostError, match=r"/ field `cpus` must not be 999$"):
        await lima.create(f"cpus: 999\n{TEMPLATE}")
    assert list(lima.home.path.iterdir()) == []


async def test_cancelled_creation_is_incomplete_and_leaves_nothing(
    lima: Lima,
) -> None:
    lima.behave(hang=["create"])
    task = asyncio.create_task(lima.create())
    async with asyncio.timeout(TIMEOUT_S):
        while len(lima.progress) < 2:
            lima.has_progress.clear()
            await lima.has_progress.wait()
    assert (lima.directory.path / "lima.yaml").exists()
    assert lima.directory.status() is InstanceStatus.UNINITIALIZED
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(lima.home.path.iterdir()) == []


CREATE = """
import asyncio, sys
from pathlib import Path
from rdd.vm.drivers.lima import availability
from rdd.vm.instance_dir import LimaHome
from rdd.vm.machines import Machines
from rdd.vm.template import HostFacts
import os

availability.is_root = lambda: False
home, template = Path(sys.argv[1]), sys.argv[2]
machines = Machines(LimaHome(home), agent_command=(), changed=print, environment=os.environ,
                    facts=HostFacts.gather(home))
asyncio.run(machines.create("vm", template, progress=lambda line: print(line, flush=True)))
"""


async def test_sweep_kills_limactl_of_an_interrupted_creation(
    lima: Lima,
) -> None:
    lima.behave(hang=["create"])
    with start_program(
        [sys.executable, "-c", CREATE, str(lima.home.path), TEMPLATE],
        env={**lima.environment, "PYTHONPATH": str(Path(__file__).parents[4] / "src")},
    ) as daemon:
        await asyncio.to_thread(daemon.read_until, lambda line: "download" in line)
        daemon.kill()
        daemon.wait()
    assert lima.directory.exists() and lima.directory.status() is InstanceStatus.UNINITIALIZED
    worker = int((lima.directory.creation_dir / "limactl.pid").read_text())
    os.kill(worker, 0)
    await lima.machines.sweep()
    assert list(lima.home.path.iterdir()) == []
    lima.behave()
    await lima.create()
    assert lima.directory.status() is InstanceStatus.STOPPED


# Start and stop


async def test_limas_agent_runs_and_stops_the_machine(lima: Lima) -> None:
    directory = await lima.create()
    lima.behave(forwards=[{"type": "forwarding", "protocol": "tcp", "guestAddr": "0.0.0.0:80"}])
    await lima.start()
    assert directory.status() is InstanceStatus.RUNNING
    seen = lima.machines.phase("vm")
    assert seen.ssh_local_port > 0 and len(seen.forwards) == 1
    assert directory.agent() == lima.both()[0]
    assert f"Port {seen.ssh_local_port}" in directory.ssh_config.read_text()
    lima.machines.stop("vm")
    seen = await lima.until_phase(Phase.STOPPED)
    assert (seen.reason, seen.stop_error) == ("", "")
    assert (directory.path / "shut-down").exists()
    assert directory.status() is InstanceStatus.STOPPED
    assert not list(directory.path.glob("*.pid")) and not list(directory.path.glob("*.sock"))
    await lima.machines.delete("vm")
    assert list(lima.home.path.iterdir()) == []


async def test_vz_machine_is_its_agent(lima: Lima, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("rdd.vm.drivers.lima.availability.default_kind", lambda: "vz")
        await lima.create(TEMPLATE.replace("qemu", "vz", 1))
    await lima.start()
    agent, driver = lima.both()
    assert agent.pid == driver.pid
    lima.machines.stop("vm")
    assert (await lima.until_phase(Phase.STOPPED)).stop_error == ""


async def test_machine_is_starting_until_lima_reports_it_ready(lima: Lima) -> None:
    await lima.create()
    lima.behave(wait=True)
    await lima.machines.start("vm")
    assert (await lima.until(lambda seen: seen.ssh_local_port)).phase is Phase.STARTING
    lima.go()
    await lima.until_phase(Phase.RUNNING)


async def test_degraded_machine_reports_limas_errors(lima: Lima) -> None:
    await lima.create()
    lima.behave(errors=["did not receive an event from the guest agent"])
    await lima.start()
    seen = lima.machines.phase("vm")
    assert seen.degraded
    assert seen.errors == ("did not receive an event from the guest agent",)


async def test_agent_that_ignores_sigint_is_killed_with_its_machine(lima: Lima) -> None:
    await lima.create()
    lima.behave(ignores_sigint=True)
    await lima.start()
    agent, driver = lima.both()
    lima.machines.stop("vm", grace_s=0.3)
    seen = await lima.until_phase(Phase.STOPPED)
    assert seen.reason == "it did not stop in time and was killed"
    assert not is_alive(agent) and not is_alive(driver)


async def test_changed_template_takes_effect_with_the_next_start(lima: Lima) -> None:
    directory = await lima.create()
    await lima.start()
    lima.machines.write_template("vm", f"cpus: 3\n{TEMPLATE}")
    lima.machines.stop("vm")
    await lima.until_phase(Phase.STOPPED)
    await lima.start()
    assert directory.read_lima_yaml() == f"cpus: 3\n{TEMPLATE}"


# Failures


@pytest.mark.parametrize(
    ("behaviour", "match"),
    [
        pytest.param(
            {"fail": {"start": "failed to find the QEMU binary"}},
            "exit code 1: about to start / failed to find the QEMU binary",
            id="before the agent",
        ),
    ],
)
async def test_failed_start_has_limactls_message(
    lima: Lima, behaviour: dict[str, object], match: str
) -> None:
    await lima.create()
    lima.behave(**behaviour)
    with pytest.raises(StartFailed, match=match):
        await lima.machines.start("vm")
    lima.behave()
    await lima.start()


async def test_failed_agent_is_reported_with_its_log(lima: Lima) -> None:
    await lima.create()
    lima.behave(fail={"hostagent": "cannot start DNS server"})
    try:
        await lima.machines.start("vm")
    except StartFailed as failed:  # it ended before its pid file was detected
        assert failed.log_tail[-1] == "cannot start DNS server"
    else:
        seen = await lima.until_phase(Phase.STOPPED)
        assert seen.crashed and seen.log_tail[-1] == "cannot start DNS server"


async def test_limactl_without_an_agent_is_ended_after_the_timeout(
    lima: Lima, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lima.create()
    monkeypatch.setattr("rdd.vm.drivers.lima.driver.START_S", 0.3)
    lima.behave(hang=["start"])
    with pytest.raises(StartFailed, match=r'did not write ".*ha.pid" within 0.3 s: .*Starting the'):
        await lima.machines.start("vm")
    assert lima.directory.status() is InstanceStatus.STOPPED


async def test_crash_of_the_virtual_machine_is_reported_with_limas_log(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    os.kill(lima.both()[1].pid, signal.SIGKILL)
    seen = await lima.until_phase(Phase.STOPPED)
    assert seen.crashed
    assert seen.reason == "the host agent ended with exit code 1"
    assert 'Driver stopped due to error: "signal: killed"' in seen.log_tail
    await lima.start()


async def test_uninstalled_limactl_is_reported_with_the_fix(lima: Lima) -> None:
    await lima.create()
    (lima.folder / "bin" / "limactl").unlink()
    with pytest.raises(
        HostError,
        match=r"limactl, which runs this machine, is no longer on the PATH.*lima-vm\.io|brew",
    ):
        await lima.machines.start("vm")
    await lima.machines.delete("vm")
    assert list(lima.home.path.iterdir()) == []


async def test_machine_is_stopped_and_deleted_without_limactl(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    (lima.folder / "bin" / "limactl").unlink()
    await lima.machines.delete("vm")
    assert list(lima.home.path.iterdir()) == []


# Adoption


async def test_next_daemon_follows_the_agent_without_a_restart(lima: Lima) -> None:
    await lima.create()
    lima.behave(forwards=[{"type": "forwarding", "protocol": "tcp", "guestAddr": "0.0.0.0:80"}])
    await lima.start()
    before, port = lima.both(), lima.machines.phase("vm").ssh_local_port
    await lima.machines.close()
    lima.new_daemon()
    assert await lima.machines.adopt("vm")
    seen = lima.machines.phase("vm")
    assert (seen.phase, seen.ssh_local_port, len(seen.forwards)) == (Phase.RUNNING, port, 1)
    assert lima.both() == before
    lima.machines.stop("vm")
    assert (await lima.until_phase(Phase.STOPPED)).reason == ""
    assert (lima.directory.path / "shut-down").exists()


async def test_end_of_an_adopted_agent_is_observed(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    await lima.machines.close()
    lima.new_daemon()
    await lima.machines.adopt("vm")
    os.kill(lima.both()[1].pid, signal.SIGKILL)
    seen = await lima.until_phase(Phase.STOPPED)
    assert seen.crashed and seen.reason == "the host agent ended"


async def test_machine_without_agent_is_killed_and_restarted(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    agent, driver = lima.both()
    os.kill(agent.pid, signal.SIGKILL)
    await lima.until_phase(Phase.STOPPED)
    assert lima.directory.status() is InstanceStatus.BROKEN
    assert await lima.machines.adopt("vm")
    await lima.until_phase(Phase.RUNNING)
    assert not is_alive(driver)
    assert lima.both()[1] != driver


async def test_stop_kills_a_machine_without_agent(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    agent, driver = lima.both()
    os.kill(agent.pid, signal.SIGKILL)
    await lima.until_phase(Phase.STOPPED)
    lima.machines.stop("vm")
    await lima.until(lambda seen: seen.phase is Phase.STOPPED and seen.is_stop_requested)
    assert await ended_within(driver, 10)
    assert not (lima.directory.path / "shut-down").exists()
    assert lima.directory.status() is InstanceStatus.STOPPED


async def test_stop_by_limactl_is_observed(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    listed = json.loads(lima.limactl("list", "--json").stdout)
    assert (listed["name"], listed["status"]) == ("vm", "Running")
    assert listed["hostAgentPID"] == lima.both()[0].pid
    assert lima.limactl("stop", "vm").returncode == 0
    seen = await lima.until_phase(Phase.STOPPED)
    assert seen.crashed and seen.exit_code == 0


async def test_limas_agent_cannot_suspend(lima: Lima) -> None:
    await lima.create()
    await lima.start()
    lima.machines.stop("vm", suspend=True)
    seen = await lima.until(lambda seen: seen.stop_error)
    assert seen.phase is Phase.RUNNING
    assert "cannot suspend machines" in seen.stop_error


async def test_limactl_cleans_up_machines_with_networks(lima: Lima) -> None:
    directory = await lima.create(f"{TEMPLATE}networks:\n- lima: user-v2\n")
    await lima.start()
    (directory.path / "left.tmp").touch()
    lima.machines.stop("vm")
    seen = await lima.until_phase(Phase.STOPPED)
    assert seen.stop_error == "" and not (directory.path / "left.tmp").exists()


# Shell


@pytest.mark.parametrize(
    ("command", "options", "output"),
    [
        pytest.param(["echo", "hello  there", "$HOME"], {}, "hello  there $HOME\n", id="words"),
        pytest.param(["-n"], {"shell": "/bin/echo"}, "-c '-n'\n", id="shell"),
        pytest.param(["pwd"], {"workdir": "/usr"}, "/usr\n", id="workdir"),
    ],
)
async def test_shell_command_uses_limactl(
    lima: Lima, command: list[str], options: dict[str, str], output: str
) -> None:
    directory = await lima.create()
    await lima.start()
    request = ShellRequest(
        command=command,
        environment=lima.environment,
        shell=options.get("shell", ""),
        workdir=options.get("workdir", ""),
    )
    shell = catalog.provider("lima").shell(directory, directory.template(lima.facts), request)
    done = await asyncio.to_thread(run_program, shell.argv, env=shell.env)
    assert done.stdout == output
