# SPDX-License-Identifier: Apache-2.0
"""LimaVMs with a real container engine: life, death of each part, two at once, bad input."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import MOBY, PLAIN, Place
from tests.e2e.machine.limavm_parts import place as make_place
from tests.programs import run_program

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def place(rdd_script: Path, kubectl: Path, dockerd_path: Path) -> Iterator[Place]:
    yield from make_place(rdd_script, kubectl, dockerd_path)


@pytest.fixture
def vm(place: Place) -> Iterator[str]:
    """A running virtual machine with an engine and a container, gone afterwards."""
    name = "vm"
    engine = place.create(name, "--start")
    engine.import_image()
    engine.run("web")
    yield name
    place.world.rdd("limavm", "delete", name)
    place.clean(name)


def is_running(place: Place, name: str, container: str = "web") -> bool:
    return bool(place.engine(name).inspect(container)["State"]["Running"])


def started_at(place: Place, name: str, container: str = "web") -> str:
    return str(place.engine(name).inspect(container)["State"]["StartedAt"])


# -- life


def test_a_virtual_machine_lives_and_leaves_nothing(place: Place) -> None:
    engine = place.create("life", "--start")
    assert place.starts("life") == 1
    engine.import_image()
    engine.run("web", HostConfig={"RestartPolicy": {"Name": "always"}})

    stopped = place.world.rdd("limavm", "stop", "life")
    assert place.said("life") == ("Stopped", "Lima instance stopped successfully")
    assert any("Started" in line for line in stopped.messages)
    place.clean("life")

    place.world.rdd("lima", "start", "life")
    place.world.until(lambda: is_running(place, "life"))
    place.world.rdd("limavm", "restart", "life")
    assert place.starts("life") == 3

    listed = place.world.rdd("limavm", "list", "-o", "json").json()
    assert [(vm["name"], vm["state"], vm["starts"]) for vm in listed] == [("life", "Started", 3)]
    log = place.world.rdd("limavm", "log", "life")
    assert "READY" in log.out
    events = place.world.rdd("limavm", "log", "-o", "life")
    assert '"running"' in events.out

    place.world.rdd("limavm", "delete", "life")
    place.clean("life")
    assert not place.directory("life").exists()
    assert "life" not in place.world.kubectl("get", "configmaps", "-o", "name")


def test_a_shell_is_opened_on_this_machine(place: Place, vm: str) -> None:
    shell = place.world.rdd("limavm", "shell", "--workdir", "/", vm, "sh", "-c", "pwd; exit 0")
    assert shell.out.splitlines()[-1] == "/"
    failed = place.world.try_rdd("limavm", "shell", vm, "sh", "-c", "exit 7")
    assert failed.code == 7


def test_params_and_templates_restart_the_machine(place: Place, vm: str) -> None:
    shown = place.world.rdd("limavm", "params", vm)
    assert shown.out.splitlines()[0] == "CONTAINER_ENGINE=moby"
    other = place.world.home / "other.sock"
    place.world.rdd("limavm", "params", vm, f"HOST_DOCKER_SOCKET={other}")
    assert place.starts(vm) == 2
    assert other.is_socket()
    assert not place.socket(vm).exists()
    refused = place.world.try_rdd("limavm", "params", vm, "COLOUR=red")
    assert refused.code == 1
    assert "the template has no such param" in refused.last[1]
    place.world.rdd("limavm", "params", vm, "HOST_DOCKER_SOCKET-")
    assert place.socket(vm).is_socket()

    script = place.world.home / "editor.sh"
    script.write_text('#!/bin/sh\necho "message: edited" >> "$1"\n')
    script.chmod(0o755)
    place.world.rdd("limavm", "edit", vm, EDITOR=str(script))
    place.until_started(vm, 4)
    assert "message: edited" in place.directory(vm).lima_yaml.read_text()


def test_a_reset_forgets_the_containers(place: Place, vm: str) -> None:
    place.world.rdd("limavm", "reset", vm)
    assert place.engine(vm).call("GET", "/containers/json?all=1") == []
    assert place.starts(vm) == 2


def test_two_virtual_machines_do_not_see_each_other(place: Place, vm: str) -> None:
    second = place.create("second", "--start")
    try:
        second.import_image()
        second.run("other")
        assert is_running(place, vm)
        (found,) = second.call("GET", "/containers/json")
        assert found["Names"] == ["/other"]
    finally:
        place.world.rdd("limavm", "delete", "second", "--force")
    place.clean("second")
    assert is_running(place, vm)


# -- death


def test_a_crash_of_the_daemon_costs_no_container(place: Place, vm: str) -> None:
    driver, since = place.driver_pid(vm), started_at(place, vm)
    place.world.crash()
    assert is_running(place, vm)
    place.world.rdd("svc", "start", "--controllers=limavm")
    place.until_started(vm, 2)
    assert (place.driver_pid(vm), started_at(place, vm)) == (driver, since)
    assert place.starts(vm) == 2


def test_a_crash_of_the_host_agent_costs_no_container(place: Place, vm: str) -> None:
    driver, since = place.driver_pid(vm), started_at(place, vm)
    place.kill(place.agent_pid(vm))
    place.until_started(vm, 2)
    assert (place.driver_pid(vm), started_at(place, vm)) == (driver, since)


def test_a_crash_of_the_engine_is_recovered_from(place: Place, vm: str) -> None:
    place.kill(place.engine_pid(vm))
    place.until_started(vm, 2)
    engine = place.engine(vm)
    place.world.until(engine.is_answering)
    assert len(engine.call("GET", "/containers/json?all=1")) == 1
    engine.run("after")


def test_the_end_of_the_daemon_stops_everything_and_its_start_brings_it_back(
    place: Place, vm: str
) -> None:
    place.world.rdd("svc", "stop")
    place.clean(vm)
    place.world.rdd("svc", "start", "--controllers=limavm")
    place.until_started(vm, 2)


def test_an_instance_is_deleted_completely_after_a_crash_of_its_daemon(
    rdd_script: Path, kubectl: Path, dockerd_path: Path
) -> None:
    for own in make_place(rdd_script, kubectl, dockerd_path):
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
def test_whoever_is_killed_whenever_the_next_look_converges(
    place: Place, victim: str, phase: str
) -> None:
    name = f"{victim}-{phase}"
    place.create(name, "--start", *(["--wait=false"] if phase == "starting" else []))
    if phase == "starting":
        place.world.until(lambda: place.directory(name).ha_pid.exists())
    elif phase == "stopping":
        place.world.rdd("limavm", "stop", name, "--wait=false")
    elif phase == "deleting":
        place.world.rdd("limavm", "delete", name, "--wait=false")
    _kill(place, name, victim)
    if victim == "daemon":
        place.world.rdd("svc", "start", "--controllers=limavm")
    if phase in ("starting", "running"):
        place.world.until(lambda: place.engine(name).is_answering())
        place.world.rdd("limavm", "start", name)
    elif phase == "stopping":
        place.world.rdd("limavm", "stop", name)
        place.clean(name)
    if phase != "deleting":
        place.world.rdd("limavm", "delete", name)
    place.world.until(lambda: place.world.try_rdd("lima", "list").out.find(name) < 0)
    place.clean(name)
    assert not place.directory(name).exists()


def _kill(place: Place, name: str, victim: str) -> None:
    """Kill one of the processes, if it is (still) there."""
    if victim == "daemon":
        place.world.crash()
        return
    find = {"agent": place.agent_pid, "engine": place.engine_pid, "driver": place.driver_pid}
    for _ in range(100):
        try:
            place.kill(find[victim](name))
            return
        except (AssertionError, OSError, ValueError):
            time.sleep(0.01)


# -- bad input


def test_a_missing_binary_is_named_with_the_remedy_and_found_later(
    place: Place, real_part: Callable[[str], Path]
) -> None:
    """The daemon's PATH has no containerd for a while."""
    containerd = real_part("containerd")
    world, programs = place.world, place.world.home / "bin"
    programs.mkdir()
    found = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    for directory in map(Path, found.split(":")):
        for tool in directory.iterdir() if directory.is_dir() else ():
            if tool.name != "containerd" and not (programs / tool.name).exists():
                (programs / tool.name).symlink_to(tool)
    world.rdd("svc", "stop")
    world.rdd("svc", "start", "--controllers=limavm", PATH=str(programs))
    try:
        place.create("lost", "--start", "--wait=false")
        message = _until_failed(place, "lost")
        assert "containerd is not installed" in message
        assert "apt-get install" in message
        assert not place.directory("lost").exists()
        (programs / "containerd").symlink_to(containerd)
        place.until_started("lost", 1)
    finally:
        world.rdd("limavm", "delete", "lost", "--force")
        world.rdd("svc", "stop")
        world.rdd("svc", "start", "--controllers=limavm")
    place.clean("lost")


def _until_failed(place: Place, name: str) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for type_, reason in (("Created", "CreateFailed"), ("Running", "StartFailed")):
            found, message = place.said(name, type_)
            if found == reason:
                return message
        time.sleep(0.05)
    raise AssertionError(place.vm(name))


def test_a_name_too_long_for_a_socket_is_said_to_be(place: Place) -> None:
    name = "n" * 70
    place.create(name, text=PLAIN)
    try:
        message = place.until_reason(name, "CreateFailed", "Created")
        assert message.startswith("socket path ")
        assert message.endswith("use a shorter name or a shorter home directory")
        assert not place.directory(name).exists()
    finally:
        place.world.rdd("limavm", "delete", name)


def test_a_socket_of_somebody_else_is_respected_and_a_stale_one_replaced(place: Place) -> None:
    path = place.socket("sock")
    holder = socket.socket(socket.AF_UNIX)
    holder.bind(str(path))
    holder.listen()
    try:
        place.create("sock", "--start", "--wait=false")
        message = _until_failed(place, "sock")
        assert str(path) in message
        assert path.is_socket()
    finally:
        holder.close()  # the file stays behind, stale
    try:
        place.until_started("sock", 1)
        place.engine("sock").import_image()
    finally:
        place.world.rdd("limavm", "delete", "sock")
    place.clean("sock")


def _fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="No space left"):
            while True:
                os.write(descriptor, b"x" * 4096)
    finally:
        os.close(descriptor)


def test_a_full_disk_is_told_and_waited_out(place: Place) -> None:
    world = place.world
    world.rdd("svc", "stop")
    lima = place.lima.path
    done = run_program(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(lima)])
    if done.returncode:
        world.rdd("svc", "start", "--controllers=limavm")
        pytest.skip(f"this machine does not let root mount: {done.stderr}")
    try:
        filler = lima / "_filler"
        _fill(filler)
        world.rdd("svc", "start", "--controllers=limavm")
        place.create("full", text=PLAIN)
        message = place.until_reason("full", "CreateFailed", "Created")
        assert "No space left on device" in message
        assert place.lima.names() == []
        filler.unlink()
        place.until_reason("full", "Created", "Created")
        world.rdd("limavm", "delete", "full")
        assert list(lima.iterdir()) == []
        world.rdd("svc", "stop")
    finally:
        run_program(["umount", "--lazy", str(lima)], check=True)
        world.rdd("svc", "start", "--controllers=limavm")


# -- the command line


def test_refusals_tell_everything_and_leave_nothing(place: Place) -> None:
    path = place.template("bad", "vmType: host\ncpu: 4\nmemory: lots\n")
    done = place.world.try_rdd("limavm", "create", "bad", str(path))
    assert done.code == 1
    assert 'line 2: cpu: unknown key, did you mean "cpus"?; line 3: memory: "lots"' in done.last[1]
    assert "Cleaning up created ConfigMap" in done.messages
    assert "bad" not in place.world.kubectl("get", "configmaps,limavms", "-o", "name")


def test_a_name_can_mean_a_file_or_a_configmap(place: Place, tmp_path: Path) -> None:
    world = place.world
    missing = world.try_rdd("limavm", "create", "x", "missing")
    assert missing.code == 1
    assert missing.last[1].endswith('configmaps "missing" not found')
    unreadable = world.try_rdd("limavm", "create", "x", "./missing.yaml")
    assert unreadable.last[1] == (
        'failed to read template file "./missing.yaml": No such file or directory'
    )


@pytest.mark.parametrize("command", ["start", "stop", "restart", "reset", "delete", "edit"])
def test_a_virtual_machine_that_does_not_exist_is_not_found(place: Place, command: str) -> None:
    done = place.world.try_rdd("limavm", command, "nobody")
    assert done.code == 1
    assert done.last[1] == 'LimaVM "nobody" not found in any namespace'


def test_a_wait_ends_at_its_deadline_with_code_4(place: Place) -> None:
    """The socket is taken for good, so it never runs."""
    holder = socket.socket(socket.AF_UNIX)
    holder.bind(str(place.socket("late")))
    holder.listen()
    try:
        path = place.template("late", MOBY.format(socket=place.socket("late")))
        done = place.world.try_rdd("limavm", "create", "late", str(path), "--start", "--timeout=3s")
        assert done.code == 4
        assert 'waiting for LimaVM "late" to be running: context deadline exceeded' in done.last[1]
        assert "Failed)" in done.last[1]
        stopped = place.world.try_rdd("limavm", "shell", "late")
        assert stopped.code == 1
        assert 'instance "late" is not running (status: ' in stopped.last[1]
        place.world.rdd("limavm", "stop", "late")
    finally:
        place.world.rdd("limavm", "delete", "late")
        holder.close()
        place.socket("late").unlink(missing_ok=True)
