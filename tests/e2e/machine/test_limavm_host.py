# SPDX-License-Identifier: Apache-2.0
"""LimaVMs with a real container engine: lifecycle, crashes, concurrency, bad input."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import MOBY, PLAIN, VmHome
from tests.e2e.machine.limavm_parts import vm_home as open_vm_home
from tests.programs import run_program

from rdd.host.processes import identity

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def vm_home(rdd_script: Path, kubectl: Path, dockerd_path: Path) -> Iterator[VmHome]:
    yield from open_vm_home(rdd_script, kubectl, dockerd_path)


@pytest.fixture
def vm(vm_home: VmHome) -> Iterator[str]:
    """A running virtual machine with an engine and a container, removed afterwards."""
    name = "vm"
    engine = vm_home.create(name, "--start")
    engine.import_image()
    engine.run("web")
    yield name
    vm_home.world.rdd("limavm", "delete", name)
    vm_home.clean(name)


def is_running(vm_home: VmHome, name: str, container: str = "web") -> bool:
    return bool(vm_home.engine(name).inspect(container)["State"]["Running"])


def has_ended(pid: int) -> bool:
    return identity(pid) is None


def started_at(vm_home: VmHome, name: str, container: str = "web") -> str:
    return str(vm_home.engine(name).inspect(container)["State"]["StartedAt"])


# -- lifecycle


def test_lifecycle_leaves_nothing(vm_home: VmHome) -> None:
    engine = vm_home.create("life", "--start")
    assert vm_home.starts("life") == 1
    engine.import_image()
    engine.run("web", HostConfig={"RestartPolicy": {"Name": "always"}})

    stopped = vm_home.world.rdd("limavm", "stop", "life")
    assert vm_home.condition("life") == ("Stopped", "Lima instance stopped successfully")
    assert any("Started" in line for line in stopped.messages)
    vm_home.clean("life")

    vm_home.world.rdd("lima", "start", "life")
    vm_home.world.until(lambda: is_running(vm_home, "life"))
    vm_home.world.rdd("limavm", "restart", "life")
    assert vm_home.starts("life") == 3

    listed = vm_home.world.rdd("limavm", "list", "-o", "json").json()
    assert [(vm["name"], vm["state"], vm["starts"]) for vm in listed] == [("life", "Started", 3)]
    log = vm_home.world.rdd("limavm", "log", "life")
    assert "READY" in log.out
    assert f"hostagent socket created at {vm_home.directory('life').ha_sock}" in log.out
    events = vm_home.world.rdd("limavm", "log", "-o", "life")
    assert '"running"' in events.out

    dry = vm_home.world.rdd("limavm", "create", "dry", "life-template", "--dry-run")
    assert dry.messages == [
        'LimaVM "dry" created in namespace "default" with template ConfigMap "life-template"'
    ]
    vm_home.world.rdd("limavm", "delete", "life")
    vm_home.clean("life")
    assert not vm_home.directory("life").exists()
    assert "life" not in vm_home.world.kubectl("get", "configmaps", "-o", "name")


def test_commands_that_do_not_wait_report_the_request(vm_home: VmHome, vm: str) -> None:
    def request(verb: str) -> list[str]:
        return vm_home.world.rdd("limavm", verb, vm, "--wait=false").messages

    assert request("stop") == [f'LimaVM "{vm}" stopped']
    vm_home.world.rdd("limavm", "stop", vm)
    assert request("start") == [f'LimaVM "{vm}" started']
    vm_home.until_started(vm, 2)
    assert request("restart") == [f'LimaVM "{vm}" restart requested']
    vm_home.until_started(vm, 3)


def test_shell_runs_on_the_host(vm_home: VmHome, vm: str) -> None:
    shell = vm_home.world.rdd("limavm", "shell", "--workdir", "/", vm, "sh", "-c", "pwd; exit 0")
    assert shell.out.splitlines()[-1] == "/"
    failed = vm_home.world.try_rdd("limavm", "shell", vm, "sh", "-c", "exit 7")
    assert failed.code == 7


def test_params_and_templates_restart_the_machine(vm_home: VmHome, vm: str) -> None:
    shown = vm_home.world.rdd("limavm", "params", vm)
    assert shown.out.splitlines()[0] == "CONTAINER_ENGINE=moby"
    other = vm_home.world.home / "other.sock"
    vm_home.world.rdd("limavm", "params", vm, f"HOST_DOCKER_SOCKET={other}")
    assert vm_home.starts(vm) == 2
    assert other.is_socket()
    assert not vm_home.socket(vm).exists()
    refused = vm_home.world.try_rdd("limavm", "params", vm, "COLOUR=red")
    assert refused.code == 1
    assert "the template has no such param" in refused.last[1]
    vm_home.world.rdd("limavm", "params", vm, "HOST_DOCKER_SOCKET-")
    assert vm_home.socket(vm).is_socket()

    script = vm_home.world.home / "editor.sh"
    script.write_text('#!/bin/sh\necho "message: edited" >> "$1"\n')
    script.chmod(0o755)
    vm_home.world.rdd("limavm", "edit", vm, EDITOR=str(script))
    vm_home.until_started(vm, 4)
    assert "message: edited" in vm_home.directory(vm).lima_yaml.read_text()


def test_reset_deletes_the_containers(vm_home: VmHome, vm: str) -> None:
    vm_home.world.rdd("limavm", "reset", vm)
    assert vm_home.engine(vm).call("GET", "/containers/json?all=1") == []
    assert vm_home.starts(vm) == 2


def test_two_virtual_machines_are_isolated(vm_home: VmHome, vm: str) -> None:
    second = vm_home.create("second", "--start")
    try:
        second.import_image()
        second.run("other")
        assert is_running(vm_home, vm)
        (found,) = second.call("GET", "/containers/json")
        assert found["Names"] == ["/other"]
    finally:
        vm_home.world.rdd("limavm", "delete", "second", "--force")
    vm_home.clean("second")
    assert is_running(vm_home, vm)


# -- crashes


def test_containers_survive_a_daemon_crash(vm_home: VmHome, vm: str) -> None:
    driver, since = vm_home.driver_pid(vm), started_at(vm_home, vm)
    vm_home.world.crash()
    assert is_running(vm_home, vm)
    vm_home.world.rdd("svc", "start", "--controllers=limavm")
    vm_home.until_started(vm, 2)
    assert (vm_home.driver_pid(vm), started_at(vm_home, vm)) == (driver, since)
    assert vm_home.starts(vm) == 2


def test_containers_survive_a_host_agent_crash(vm_home: VmHome, vm: str) -> None:
    driver, since = vm_home.driver_pid(vm), started_at(vm_home, vm)
    vm_home.kill(vm_home.agent_pid(vm))
    vm_home.until_started(vm, 2)
    assert (vm_home.driver_pid(vm), started_at(vm_home, vm)) == (driver, since)


def test_machine_recovers_from_an_engine_crash(vm_home: VmHome, vm: str) -> None:
    vm_home.kill(vm_home.engine_pid(vm))
    vm_home.until_started(vm, 2)
    engine = vm_home.engine(vm)
    vm_home.world.until(engine.is_answering)
    assert len(engine.call("GET", "/containers/json?all=1")) == 1
    engine.run("after")


def test_daemon_stop_stops_machines_and_its_start_restarts_them(vm_home: VmHome, vm: str) -> None:
    vm_home.world.rdd("svc", "stop")
    vm_home.clean(vm)
    vm_home.world.rdd("svc", "start", "--controllers=limavm")
    vm_home.until_started(vm, 2)


def test_deletion_is_completed_after_a_daemon_crash(
    rdd_script: Path, kubectl: Path, dockerd_path: Path
) -> None:
    for own in open_vm_home(rdd_script, kubectl, dockerd_path):
        engine = own.create("alone", "--start")
        engine.import_image()
        engine.run("web")
        own.kill(own.agent_pid("alone"))
        own.world.crash()
        own.world.rdd("svc", "delete")
        own.clean("alone")
        assert not own.lima.path.exists()


VICTIMS = ("daemon", "agent", "engine", "driver")
PHASES = ("starting", "running", "stopping", "deleting")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("victim", VICTIMS)
def test_machine_converges_after_any_process_is_killed(
    vm_home: VmHome, victim: str, phase: str
) -> None:
    name = f"{victim}-{phase}"
    vm_home.create(name, "--start", *(["--wait=false"] if phase == "starting" else []))
    if phase == "starting":
        vm_home.world.until(lambda: vm_home.directory(name).ha_pid.exists())
    elif phase == "stopping":
        vm_home.world.rdd("limavm", "stop", name, "--wait=false")
    elif phase == "deleting":
        vm_home.world.rdd("limavm", "delete", name, "--wait=false")
    _kill(vm_home, name, victim)
    if victim == "daemon":
        vm_home.world.rdd("svc", "start", "--controllers=limavm")
    if phase in ("starting", "running"):
        vm_home.world.until(lambda: vm_home.engine(name).is_answering())
        vm_home.world.rdd("limavm", "start", name)
    elif phase == "stopping":
        vm_home.world.rdd("limavm", "stop", name)
        vm_home.clean(name)
    if phase != "deleting":
        vm_home.world.rdd("limavm", "delete", name)
    vm_home.world.until(lambda: vm_home.world.try_rdd("lima", "list").out.find(name) < 0)
    vm_home.clean(name)
    assert not vm_home.directory(name).exists()


def _kill(vm_home: VmHome, name: str, victim: str) -> None:
    """Kill one of the processes if it is alive."""
    if victim == "daemon":
        vm_home.world.crash()
        return
    find = {"agent": vm_home.agent_pid, "engine": vm_home.engine_pid, "driver": vm_home.driver_pid}
    for _ in range(100):
        try:
            vm_home.kill(find[victim](name))
            return
        except (AssertionError, OSError, ValueError):
            time.sleep(0.01)


# -- bad input


def test_missing_binary_is_reported_with_the_fix_and_found_later(
    vm_home: VmHome, real_part: Callable[[str], Path]
) -> None:
    """The daemon's PATH temporarily has no containerd."""
    containerd = real_part("containerd")
    world, programs = vm_home.world, vm_home.world.home / "bin"
    programs.mkdir()
    found = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    for directory in map(Path, found.split(":")):
        for tool in directory.iterdir() if directory.is_dir() else ():
            if tool.name != "containerd" and not (programs / tool.name).exists():
                (programs / tool.name).symlink_to(tool)
    world.rdd("svc", "stop")
    world.rdd("svc", "start", "--controllers=limavm", PATH=str(programs))
    try:
        vm_home.create("lost", "--start", "--wait=false")
        message = _until_failed(vm_home, "lost")
        assert "containerd is not installed" in message
        assert "apt-get install" in message
        assert not vm_home.directory("lost").exists()
        (programs / "containerd").symlink_to(containerd)
        vm_home.until_started("lost", 1)
    finally:
        world.rdd("limavm", "delete", "lost", "--force")
        world.rdd("svc", "stop")
        world.rdd("svc", "start", "--controllers=limavm")
    vm_home.clean("lost")


def _until_failed(vm_home: VmHome, name: str) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for type_, reason in (("Created", "CreateFailed"), ("Running", "StartFailed")):
            found, message = vm_home.condition(name, type_)
            if found == reason:
                return message
        time.sleep(0.05)
    raise AssertionError(vm_home.vm(name))


def test_name_too_long_for_a_socket_is_reported(vm_home: VmHome) -> None:
    name = "n" * 70
    vm_home.create(name, text=PLAIN)
    try:
        message = vm_home.until_reason(name, "CreateFailed", "Created")
        assert message.startswith("socket path ")
        assert message.endswith("use a shorter name or a shorter home directory")
        assert not vm_home.directory(name).exists()
    finally:
        vm_home.world.rdd("limavm", "delete", name)


def test_socket_in_use_is_kept_and_a_stale_one_replaced(vm_home: VmHome) -> None:
    path = vm_home.socket("sock")
    owner = socket.socket(socket.AF_UNIX)
    owner.bind(str(path))
    owner.listen()
    try:
        vm_home.create("sock", "--start", "--wait=false")
        message = _until_failed(vm_home, "sock")
        assert str(path) in message
        assert path.is_socket()
    finally:
        owner.close()  # the file stays behind, stale
    try:
        vm_home.until_started("sock", 1)
        vm_home.engine("sock").import_image()
    finally:
        vm_home.world.rdd("limavm", "delete", "sock")
    vm_home.clean("sock")


def _fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="No space left"):
            while True:
                os.write(descriptor, b"x" * 4096)
    finally:
        os.close(descriptor)


def test_full_disk_is_reported_and_retried(vm_home: VmHome) -> None:
    world = vm_home.world
    world.rdd("svc", "stop")
    lima = vm_home.lima.path
    done = run_program(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(lima)])
    if done.returncode:
        world.rdd("svc", "start", "--controllers=limavm")
        pytest.skip(f"this machine does not let root mount: {done.stderr}")
    try:
        filler = lima / "_filler"
        _fill(filler)
        world.rdd("svc", "start", "--controllers=limavm")
        vm_home.create("full", text=PLAIN)
        message = vm_home.until_reason("full", "CreateFailed", "Created")
        assert "No space left on device" in message
        assert vm_home.lima.names() == []
        filler.unlink()
        vm_home.until_reason("full", "Created", "Created")
        world.rdd("limavm", "delete", "full")
        assert list(lima.iterdir()) == []
        world.rdd("svc", "stop")
    finally:
        run_program(["umount", "--lazy", str(lima)], check=True)
        world.rdd("svc", "start", "--controllers=limavm")


# -- the command line


def test_rejected_creation_lists_all_problems_and_leaves_nothing(vm_home: VmHome) -> None:
    path = vm_home.template("bad", "vmType: host\ncpu: 4\nmemory: lots\n")
    done = vm_home.world.try_rdd("limavm", "create", "bad", str(path))
    assert done.code == 1
    assert 'line 2: cpu: unknown key, did you mean "cpus"?; line 3: memory: "lots"' in done.last[1]
    assert "Cleaning up created ConfigMap" in done.messages
    assert "bad" not in vm_home.world.kubectl("get", "configmaps,limavms", "-o", "name")


def test_template_argument_is_a_file_or_a_configmap(vm_home: VmHome, tmp_path: Path) -> None:
    world = vm_home.world
    missing = world.try_rdd("limavm", "create", "x", "missing")
    assert missing.code == 1
    assert missing.last[1].endswith('configmaps "missing" not found')
    unreadable = world.try_rdd("limavm", "create", "x", "./missing.yaml")
    assert unreadable.last[1] == (
        'failed to read template file "./missing.yaml": No such file or directory'
    )


@pytest.mark.parametrize("command", ["start", "stop", "restart", "reset", "delete", "edit"])
def test_missing_virtual_machine_is_not_found(vm_home: VmHome, command: str) -> None:
    done = vm_home.world.try_rdd("limavm", command, "missing")
    assert done.code == 1
    assert done.last[1] == 'LimaVM "missing" not found in any namespace'


def test_wait_timeout_exits_with_code_4(vm_home: VmHome) -> None:
    """The socket stays in use, so the machine never runs."""
    owner = socket.socket(socket.AF_UNIX)
    owner.bind(str(vm_home.socket("late")))
    owner.listen()
    try:
        path = vm_home.template("late", MOBY.format(socket=vm_home.socket("late")))
        done = vm_home.world.try_rdd(
            "limavm", "create", "late", str(path), "--start", "--timeout=3s"
        )
        assert done.code == 4
        assert 'waiting for LimaVM "late" to be running: context deadline exceeded' in done.last[1]
        assert "Failed)" in done.last[1]
        stopped = vm_home.world.try_rdd("limavm", "shell", "late")
        assert stopped.code == 1
        assert 'instance "late" is not running (status: ' in stopped.last[1]
        vm_home.world.rdd("limavm", "stop", "late")
    finally:
        vm_home.world.rdd("limavm", "delete", "late")
        owner.close()
        vm_home.socket("late").unlink(missing_ok=True)


def test_machine_runs_on_when_the_directory_of_its_daemon_is_removed(
    rdd_script: Path, kubectl: Path, dockerd_path: Path
) -> None:
    """The record of the machine is lost with the database; machine and containers are not."""
    for own in open_vm_home(rdd_script, kubectl, dockerd_path):
        engine = own.create("alone", "--start")
        engine.import_image()
        engine.run("web")
        before = (own.agent_pid("alone"), own.driver_pid("alone"), started_at(own, "alone"))
        daemon = own.world.pid()
        shutil.rmtree(own.world.instance.dir)
        own.world.until(partial(has_ended, daemon))
        assert is_running(own, "alone")
        own.world.rdd("svc", "start")
        assert own.world.kubectl("get", "limavms", "-A", "-o", "name") == ""
        assert is_running(own, "alone")
        after = (own.agent_pid("alone"), own.driver_pid("alone"), started_at(own, "alone"))
        assert after == before

        # A new machine of the same name replaces it; the old one is in the trash.
        own.world.rdd("limavm", "create", "alone", str(own.template("alone")), "--start")
        assert engine.call("GET", "/containers/json?all=1") == []
        assert "alone" in own.world.rdd("trash", "ls").out
        own.world.rdd("limavm", "delete", "alone")
        own.clean("alone")
