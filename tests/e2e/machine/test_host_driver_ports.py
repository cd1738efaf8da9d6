# SPDX-License-Identifier: Apache-2.0
"""Published ports of the driver `host`, as a native dockerd publishes them."""

import json
import os
import socket
import sys
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
from tests.programs import CompletedProcess, run_program

from rdd.vm.drivers.host.state import HostMachineState

# Few builds of busybox support datagrams; the host's Python does.
_ECHO = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 9))
while True:
    sock.sendto(*sock.recvfrom(1500))
"""


@pytest.fixture(scope="module")
def machine(real_part: Callable[[str], Path]) -> Iterator[Machine]:
    """A machine with an engine and an image, shared by the tests of this file."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "docker-proxy", "busybox", "ip", "iptables"):
        real_part(part)
    with host_world() as world:
        made = world.machine("m")
        made.start()
        made.docker.load_image()
        yield made
        assert made.stop() == 0
        assert made.traces() == []


@pytest.fixture(autouse=True)
def no_containers(machine: Machine) -> Iterator[None]:
    yield
    for name in machine.docker("ps", "-aq").split():
        machine.docker("rm", "-f", name)


def _try_run(machine: Machine, *words: object) -> CompletedProcess[str]:
    command = ["docker", "-H", f"unix://{machine.docker_socket}", "run", *map(str, words)]
    return run_program(command)


def _listens(ip: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family) as probe:
        return probe.connect_ex((ip, port)) == 0


def _open_forwards(machine: Machine) -> set[tuple[str, str]]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(machine.directory.ha_sock))
        client.sendall(b"GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n")
        body = client.makefile("rb").read().partition(b"\r\n\r\n")[2]
    found = [one for one in json.loads(body)["forwards"] if one["type"] == "forwarding"]
    return {(one["protocol"], one["hostAddr"]) for one in found}


def test_port_listens_when_docker_run_returns(machine: Machine) -> None:
    for _ in range(5):
        port = free_port()
        machine.docker.serve("web", "-p", f"{port}:80")
        assert _listens("127.0.0.1", port)
        assert _listens("::1", port)
        assert {("tcp", f"0.0.0.0:{port}"), ("tcp", f"[::]:{port}")} <= _open_forwards(machine)
        assert fetch_once_served(port) == "hello"
        machine.docker("rm", "-f", "web")
        _wait_closed(port)


def _refusal_of_docker_proxy(protocol: str, address: str, port: int) -> str:
    """Return the text that the real program passes to dockerd on descriptor 3."""
    flags = f"-proto {protocol} -host-ip {address} -host-port {port}"
    script = f"docker-proxy {flags} -container-ip 127.0.0.1 -container-port 80 3>&1 >/dev/null"
    path = {"PATH": f"{os.environ['PATH']}:/usr/sbin"}
    status, _, text = run_program(["sh", "-c", script], env=path).stdout.partition("\n")
    assert status == "1"
    return text.strip()


def _wait_closed(port: int) -> None:
    eventually(lambda: not _listens("127.0.0.1", port), "a closed port")
    eventually(lambda: not _listens("::1", port), "a closed port")


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "::1"])
def test_port_in_use_fails_like_a_native_dockerd(
    machine: Machine, protocol: str, address: str
) -> None:
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    version = 6 if ":" in address else 4
    shown = f"[{address}]" if version == 6 else address
    with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, kind) as taken:
        taken.bind((address, 0))
        if protocol == "tcp":
            taken.listen()
        port = taken.getsockname()[1]
        done = _try_run(machine, "-p", f"{shown}:{port}:80/{protocol}", IMAGE, "echo")
        native = _refusal_of_docker_proxy(protocol, address, port)
        assert native.endswith("address already in use")
        assert done.returncode == 125
        assert f"Error starting userland proxy: {native}" in done.stderr
    done = _try_run(machine, "--rm", "-p", f"{shown}:{port}:80/{protocol}", IMAGE, "echo", "ok")
    assert (done.returncode, done.stdout) == (0, "ok\n")


def test_ports_that_the_engine_chooses_are_free_on_the_host(machine: Machine) -> None:
    machine.docker.serve("any", "-p", "80")
    found = json.loads(machine.docker("inspect", "any"))[0]["NetworkSettings"]["Ports"]["80/tcp"]
    (port,) = {int(binding["HostPort"]) for binding in found}
    assert fetch_once_served(port) == "hello"


def test_datagrams_reach_a_container_and_return(machine: Machine) -> None:
    port = free_port()
    machine.docker(
        *("run", "-d", "--name", "udp", "-p", f"{port}:9/udp", "-v", "/:/host:ro", IMAGE),
        *("chroot", "/host", sys.executable, "-I", "-S", "-c", _ECHO),
    )
    assert {("udp", f"0.0.0.0:{port}"), ("udp", f"[::]:{port}")} <= _open_forwards(machine)

    def answer(family: int, ip: str) -> bytes:
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            client.settimeout(0.5)
            try:
                client.sendto(b"ping", (ip, port))
                return client.recv(100)
            except OSError:  # the server does not listen yet
                return b""

    assert eventually(lambda: answer(socket.AF_INET, "127.0.0.1"), "an answer") == b"ping"
    assert eventually(lambda: answer(socket.AF_INET6, "::1"), "an answer") == b"ping"


def test_address_of_the_host_can_be_published(machine: Machine) -> None:
    state = HostMachineState.read(machine.paths.state_file)
    assert state is not None
    port = free_port()
    machine.docker.serve("one", "-p", f"{state.host_ip}:{port}:80")
    assert _listens(state.host_ip, port)
    assert not _listens("127.0.0.1", port)
    machine.kill_agent()
    machine.start()
    eventually(lambda: _listens(state.host_ip, port), "the port of the next agent")
    machine.docker("rm", "-f", "one")
    eventually(lambda: not _listens(state.host_ip, port), "a closed port")
    done = _try_run(machine, "-p", f"192.0.2.7:{port}:80", IMAGE, "echo")
    assert done.returncode == 125
    assert f"listen tcp4 192.0.2.7:{port}: bind: cannot assign requested address" in done.stderr


def test_killed_agent_leaves_no_listener_and_the_next_one_listens(machine: Machine) -> None:
    port = free_port()
    machine.docker.serve("web", "-p", f"{port}:80")
    assert fetch_once_served(port) == "hello"
    machine.kill_agent()
    assert not _listens("127.0.0.1", port)
    assert not _listens("::1", port)
    machine.start()
    machine.wait_forward("forwarding", f"0.0.0.0:{port}")
    assert fetch_once_served(port) == "hello"
    machine.docker("rm", "-f", "web")
    eventually(lambda: not _listens("127.0.0.1", port), "a closed port")


def test_container_reaches_a_published_port_of_another(machine: Machine) -> None:
    port = free_port()
    machine.docker.serve("web", "-p", f"{port}:80")
    gateway = machine.docker("inspect", "--format", "{{.NetworkSettings.Gateway}}", "web")
    for host in (gateway, "host.docker.internal"):
        assert machine.docker("run", "--rm", IMAGE, "wget", "-qO-", f"http://{host}:{port}/")


def test_restarted_engine_publishes_ports_again(machine: Machine) -> None:
    port = free_port()
    machine.docker.serve("always", "-p", f"{port}:80", "--restart", "always")
    assert machine.stop() == 0
    machine.start()
    assert _listens("127.0.0.1", port)
    assert fetch_once_served(port) == "hello"
