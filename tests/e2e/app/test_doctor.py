# SPDX-License-Identifier: Apache-2.0
"""Every check against reality: break the thing, see the finding, run its next step, see it gone.

The App runs a real engine on this machine; only k3s is a stand-in (tests/k3s.py). `rdd doctor`,
`rdd status` and the Diagnostic objects must agree. Next steps are pasted into a shell as they
are. docs/doctor.md lists what is broken here and how.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.app.doctor_world import Desktop, open_desktop
from tests.e2e.machine.host_world import eventually
from tests.programs import run_program

from rdd.controllers.app.diagnostics import checks, engine_checks
from rdd.controllers.app.diagnostics.findings import Facts
from rdd.host.contexts import docker_contexts
from rdd.host.processes import identity
from rdd.instance import Instance


@pytest.fixture(scope="module")
def desktop(rdd_script: Path, kubectl: Path, real_part: Callable[[str], Path]) -> Iterator[Desktop]:
    yield from open_desktop(rdd_script, kubectl, real_part)


def test_healthy_app_passes_every_check(desktop: Desktop) -> None:
    assert desktop.problems() == {}
    for check in checks.CHECKS:
        desktop.agree(check)
    assert "✓ engine" in desktop.world.rdd("doctor").out


def test_docker_context(desktop: Desktop) -> None:
    directory = desktop.world.home / ".docker"
    name = desktop.world.instance.name
    path = docker_contexts.metadata_path(directory, name)
    shutil.rmtree(path.parent)
    desktop.paste(desktop.failed("docker-context", "ContextMissing"))
    desktop.passed("docker-context")
    desktop.docker("ps")

    path.write_text(path.read_text().replace("docker.sock", "other.sock"))
    desktop.paste(desktop.failed("docker-context", "ContextMissing"))
    desktop.passed("docker-context")

    path.write_text("{ not json")
    desktop.paste(desktop.failed("docker-context", "ConfigUnreadable"))
    desktop.paste(desktop.failed("docker-context", "ContextMissing"))
    desktop.passed("docker-context")

    config = directory / "config.json"
    before = config.read_text()
    config.write_text("{ not json")
    desktop.paste(desktop.failed("docker-context", "ConfigUnreadable"))
    desktop.passed("docker-context")
    config.write_text(before)


def test_kube_context(desktop: Desktop) -> None:
    config = desktop.world.home / ".kube" / "config"
    before = config.read_text()
    config.write_text("{ not yaml")
    desktop.paste(desktop.failed("kube-context", "ConfigUnreadable"))
    desktop.paste(desktop.failed("kube-context", "ContextMissing"))
    desktop.passed("kube-context")
    assert "rancher-desktop-a1" in config.read_text()
    config.write_text(before)
    desktop.passed("kube-context")


def test_engine_that_hangs(desktop: Desktop) -> None:
    (pid,) = desktop.pids("dockerd")
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(
            lambda: desktop.reason("engine") == ("False", "EngineUnreachable"), "a hung engine"
        )
        assert desktop.problems()["engine"] == "rdd --instance a1 restart"
        desktop.paste("rdd --instance a1 restart")  # takes 25 s: it gives up on the hung one
        assert desktop.pids("dockerd") != [pid]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    desktop.passed("engine")


def test_port_in_use_is_never_reported_as_published(desktop: Desktop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = ("run", "-d", "--name", "web", "-p", f"127.0.0.1:{port}:80", "tools")
        command = (*words, "/bin/httpd", "-f", "-p", "80", "-h", "/www")
        name = desktop.world.instance.name
        done = run_program(
            [str(desktop.docker_path), "--context", name, *command],
            env=desktop.world.environment(),
        )
        if done.returncode == 0:  # otherwise the engine refused it, which is better still
            step = desktop.failed("ports", "NotForwarded")
            assert f":{port}" in desktop.paste(step)
            status = desktop.world.rdd("status", "-o", "json").json()
            assert status["ports"] == []
    desktop.passed("ports")
    desktop.docker("rm", "-f", "web")


def test_port_that_another_program_took_over(desktop: Desktop) -> None:
    """The host agent is killed, and a program listens before its successor does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = ("run", "-d", "--name", "web", "-p", f"127.0.0.1:{port}:80", "tools")
    desktop.docker(*words, "/bin/httpd", "-f", "-p", "80", "-h", "/www")
    desktop.passed("ports")
    daemon = desktop.world.pid()
    os.kill(daemon, signal.SIGSTOP)  # it would start the successor at once
    try:
        os.kill(int((desktop.world.instance.lima_home / "rd" / "ha.pid").read_text()), 9)
        with _server_on(port):
            os.kill(daemon, signal.SIGCONT)
            assert f":{port}" in desktop.paste(desktop.failed("ports", "NotForwarded"))
            assert desktop.world.rdd("status", "-o", "json").json()["ports"] == []
    finally:
        os.kill(daemon, signal.SIGCONT)
    desktop.passed("ports")
    desktop.docker("rm", "-f", "web")


def _server_on(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def is_bound() -> bool:
        with contextlib.suppress(OSError):
            found.append(socket.create_server(("127.0.0.1", port)))
        return bool(found)

    eventually(is_bound, f"port {port} to be free")
    return found[0]


def test_mounted_folder_that_the_guest_does_not_share(desktop: Desktop, tmp_path: Path) -> None:
    facts = _facts_of_guest(desktop, tmp_path)
    assert engine_checks.mounts(facts).reason == "Shared"
    folder = tmp_path / "mine"
    folder.mkdir()
    command = ("run", "-d", "--name", "mounts", "tools", "/bin/sleep", "1000")
    desktop.docker(*command[:4], "-v", f"{folder}:/w", *command[4:])
    found = engine_checks.mounts(facts)
    assert (found.healthy, found.reason) == ("False", "NotShared")
    assert found.evidence[0] == f"container mounts: {folder}"
    desktop.docker("rm", "-f", "mounts")
    assert engine_checks.mounts(facts).reason == "Shared"
    assert (
        engine_checks.mounts(_facts_of_guest(desktop, tmp_path, str(tmp_path))).reason == "Shared"
    )


def _facts_of_guest(desktop: Desktop, home: Path, *shared: str) -> Facts:
    """Return the facts of a guest whose engine is the real one of this machine."""
    instance = Instance("g", home)
    machine = instance.lima_home / "rd"
    machine.mkdir(parents=True, exist_ok=True)
    mounts = [{"location": path} for path in shared]
    text = f"vmType: qemu\nimages:\n- location: /x.img\nmounts: {json.dumps(mounts)}\n"
    (machine / "lima.yaml").write_text(text)
    (machine / "rdd.json").write_text('{"driver": "qemu"}')
    if not instance.docker_socket.is_symlink():
        instance.docker_socket.parent.mkdir(parents=True, exist_ok=True)
        instance.docker_socket.symlink_to(desktop.world.instance.docker_socket)
    running = {"type": "Running", "status": "True", "reason": "Started", "message": ""}
    app = {"spec": {"running": True}, "status": {"conditions": [running]}}
    return Facts(instance, home, {}, app)


def test_daemon_that_hangs(desktop: Desktop) -> None:
    world = desktop.world
    pid = world.pid()
    os.kill(pid, signal.SIGSTOP)
    found = desktop.doctor()
    assert (found["control-plane"]["reason"], found["engine"]["reason"]) == (
        "NotAnswering",
        "Answering",
    )
    step = desktop.problems()["control-plane"]
    assert step == found["control-plane"]["nextStep"]
    assert step == f"kill -CONT {pid}"
    desktop.paste(step)
    assert identity(pid) is not None
    desktop.passed("control-plane")
    desktop.passed("app")


def test_daemon_that_was_killed(desktop: Desktop) -> None:
    desktop.world.crash()
    step = desktop.failed("control-plane", "MachinesAlone")
    assert step == "rdd --instance a1 service start"
    assert desktop.reason("engine") == ("True", "Answering")
    desktop.docker("ps")
    assert "✗ control-plane" in desktop.world.try_rdd("doctor").out
    desktop.paste(step)
    desktop.passed("control-plane")


def test_host_agent_that_was_killed(desktop: Desktop) -> None:
    world = desktop.world
    world.crash()
    agent = int((world.instance.lima_home / "rd" / "ha.pid").read_text())
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: identity(agent) is None, "the end of the agent")
    desktop.paste(desktop.failed("processes", "HalfRunning"))
    desktop.passed("processes")
    desktop.passed("control-plane")


@pytest.mark.parametrize("damage", ["missing", "garbage", "directory"])
def test_kubeconfig_of_the_control_plane(desktop: Desktop, damage: str) -> None:
    config = desktop.world.instance.config
    kept = config.with_name("kept.yaml")
    config.rename(kept)
    if damage == "garbage":
        config.write_text("{ not yaml")
    elif damage == "directory":
        config.mkdir()
    step = desktop.failed("certificates", "ConfigUnreadable")
    assert desktop.reason("control-plane") == ("Unknown", "NotAsked")
    assert desktop.reason("engine") == ("True", "Answering")
    kept.unlink()
    desktop.paste(step)
    desktop.passed("certificates")
    desktop.passed("control-plane")
