# SPDX-License-Identifier: Apache-2.0
"""A running machine of the driver `host`: real dockerd, real containers."""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import (
    IMAGE,
    Machine,
    eventually,
    fetch_once_served,
    free_port,
    host_world,
)
from tests.programs import TIMEOUT_S, run_program, start_program

LARGEST_AGENT_KIB = 30 << 10


@pytest.fixture(scope="module")
def machine(real_part: Callable[[str], Path]) -> Iterator[Machine]:
    """A machine with an engine and an image, shared by the tests of this file."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "busybox", "ip", "iptables"):
        real_part(part)
    with host_world() as world:
        made = world.machine("m")
        made.start()
        made.docker.load_image()
        yield made
        made.stop()


def test_engine_responds_on_a_private_socket(machine: Machine) -> None:
    assert machine.docker("version", "--format", "{{.Server.Version}}")
    status = machine.docker_socket.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == os.getuid()


def test_events_have_limas_form(machine: Machine) -> None:
    first, *rest = machine.statuses()
    assert list(first) == ["sshLocalPort"]
    assert first["sshLocalPort"] > 0
    (limits,) = {tuple(status.pop("limits", {}).items()) for status in rest}  # rdd's own member
    assert limits[0][0] == "mode"
    assert {"running": True, **first} in rest
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", first["sshLocalPort"])) != 0  # no sshd listens


def test_ignored_probes_are_logged(machine: Machine) -> None:
    assert "1 probes are ignored" in machine.log()


def test_published_port_is_reachable_until_its_container_ends(machine: Machine) -> None:
    port = free_port()
    name = machine.docker.serve("published", "-p", f"{port}:80")
    machine.wait_forward("forwarding", f"0.0.0.0:{port}")
    assert fetch_once_served(port) == "hello"
    machine.docker("rm", "-f", name)
    machine.wait_forward("stopping", f"0.0.0.0:{port}")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_port_published_on_the_loopback_is_private(machine: Machine) -> None:
    port = free_port()
    machine.docker.serve("local", "-p", f"127.0.0.1:{port}:80")
    machine.wait_forward("forwarding", f"127.0.0.1:{port}")
    assert fetch_once_served(port) == "hello"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.2", port)) != 0
    machine.docker("rm", "-f", "local")


def test_logs_of_containers_are_bounded(machine: Machine) -> None:
    default = {"max-size": "20m", "max-file": "5"}
    noisy = "yes 0123456789012345678901234567890123456789 | head -n 5000"
    for name, options, expected in (
        ("default", (), default),
        ("own", ("--log-opt", "max-size=20k"), default | {"max-size": "20k"}),
        ("large", ("--log-opt", "max-size=1g"), default | {"max-size": "1g"}),
        ("other", ("--log-driver", "local"), {}),
    ):
        machine.docker("run", "--name", name, *options, IMAGE, "sh", "-c", noisy)
        shown = machine.docker("inspect", "-f", "{{json .HostConfig.LogConfig.Config}}", name)
        assert (json.loads(shown) or {}) == expected, name
    id_ = machine.docker("inspect", "-f", "{{.Id}}", "own")
    directory = machine.paths.data("docker") / "containers" / id_
    sizes = [path.stat().st_size for path in directory.glob("*-json.log*")]
    assert len(sizes) == 5
    assert sum(sizes) < 5 * 21_000
    machine.docker("rm", "default", "own", "large", "other")


def test_containers_of_a_network_resolve_each_other(machine: Machine) -> None:
    machine.docker("network", "create", "net")
    machine.docker.serve("web", "--network", "net")
    shown = machine.docker("run", "--rm", "--network", "net", IMAGE, "wget", "-qO-", "http://web/")
    assert shown == "hello"
    machine.docker("rm", "-f", "web")
    machine.docker("network", "rm", "net")


def test_container_reaches_the_host_by_name(machine: Machine) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        command = [
            *("docker", "-H", f"unix://{machine.docker_socket}", "run", "--rm", "-i", IMAGE),
            *("nc", "host.docker.internal", str(port)),
        ]
        with start_program(command) as asking:
            server.settimeout(TIMEOUT_S)
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"from outside")
            assert asking.communicate()[0] == "from outside"


def test_home_directory_can_be_mounted(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("written outside")
    mount = f"{tmp_path}:/home"
    machine.docker("run", "--rm", "-v", mount, IMAGE, "sh", "-c", "cat /home/note >/home/copy")
    assert (tmp_path / "copy").read_text() == "written outside"


def test_mounted_docker_socket_is_that_of_the_machine(machine: Machine) -> None:
    """It is not that of a system engine, which may have the same path."""
    inner = Path(f"/proc/{machine.init_pid}/root/run/docker.sock")
    assert inner.is_socket()
    machine.docker(
        *("run", "--rm", "-v", "/var/run/docker.sock:/s", IMAGE, "test", "-S", "/s"),
    )
    assert not any("docker" in line for line in _mounts_here(machine))


def _mounts_here(machine: Machine) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if str(machine.directory.path) in line]


def test_listener_of_a_container_in_the_engines_network_is_forwarded(machine: Machine) -> None:
    port = free_port()
    machine.docker(
        *("run", "-d", "--name", "direct", "--network", "host", IMAGE),
        *("httpd", "-f", "-p", str(port), "-h", "/www"),
    )
    machine.wait_forward("forwarding", f"0.0.0.0:{port}")
    assert fetch_once_served(port) == "hello"
    machine.docker("rm", "-f", "direct")
    machine.wait_forward("stopping", f"0.0.0.0:{port}")


def test_dead_shims_are_reaped(machine: Machine) -> None:
    machine.docker("run", "--rm", IMAGE, "echo")

    def zombies() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = path.read_text().rpartition(")")
            except OSError:
                continue
            if rest.split()[:2] == ["Z", str(machine.init_pid)]:
                found.append(name)
        return found

    eventually(lambda: not zombies(), "burial")


def test_agent_is_small_and_reports_its_status(machine: Machine) -> None:
    status = Path(f"/proc/{machine.agent_pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) <= LARGEST_AGENT_KIB
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(machine.directory.ha_sock))
        client.sendall(b"GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n")
        body = client.makefile("rb").read().partition(b"\r\n\r\n")[2]
    answer = json.loads(body)
    assert (answer["driver"], answer["running"]) == ("host", True)
    assert [f["hostAddr"] for f in answer["forwards"]] == [str(machine.docker_socket)]


def test_agent_leads_a_process_group(machine: Machine) -> None:
    assert os.getpgid(machine.agent_pid) == machine.agent_pid
    assert os.getpgid(machine.init_pid) not in (machine.agent_pid, 0)


def test_rejects_a_second_agent_of_the_same_machine(machine: Machine) -> None:
    done = run_program(
        machine.command,
        env={"PATH": os.environ["PATH"], "LIMA_HOME": str(machine.directory.path.parent)},
    )
    assert done.returncode == 1
    assert "another host agent holds" in done.stderr
    assert machine.docker("ps", "-q") == ""
