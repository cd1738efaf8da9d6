# SPDX-License-Identifier: Apache-2.0
"""Start, stop and crashes of `host` machines: nothing is left, containers survive agents."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import (
    IMAGE,
    HostWorld,
    eventually,
    fetch,
    fetch_once_served,
    free_port,
    host_world,
    run,
)
from tests.programs import start_program

from rdd.vm.agent import client as agentclient
from rdd.vm.drivers.host.state import HostMachinePhase, HostMachineState
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.instance_dir import InstanceStatus


@pytest.fixture
def hosts(real_part: Callable[[str], Path]) -> Iterator[HostWorld]:
    """Machines that are removed after the test."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "busybox", "ip", "iptables"):
        real_part(part)
    with host_world() as world:
        yield world


def test_stopped_machine_leaves_only_its_data(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start()
    assert machine.directory.status() is InstanceStatus.RUNNING
    machine.docker.load_image()
    machine.docker("volume", "create", "kept")
    machine.docker.serve("kept", "--restart", "unless-stopped")
    machine.docker.serve("ended")
    assert machine.stop() == 0
    assert machine.statuses()[-1] == {"exiting": True}
    assert machine.directory.status() is InstanceStatus.STOPPED
    assert machine.traces() == []

    machine.start()
    assert machine.docker("volume", "ls", "-q") == "kept"
    # httpd has no handler for SIGTERM: it was killed, and its restart policy still applies.
    assert machine.docker("ps", "--format", "{{.Names}}") == "kept"
    assert machine.docker("inspect", "-f", "{{.State.ExitCode}}", "ended") == "137"
    assert machine.stop() == 0
    assert machine.traces() == []


def test_two_machines_run_concurrently(hosts: HostWorld) -> None:
    one, two = hosts.machine("one"), hosts.machine("two")
    one.spawn()
    two.spawn()
    ports = {}
    for machine in (one, two):
        machine.wait("running")
        machine.docker.load_image()
        port = ports[machine.directory.name] = free_port()
        machine.docker.serve("web", "-p", f"{port}:80")
        machine.wait_forward("forwarding", f"0.0.0.0:{port}")
    assert fetch_once_served(ports["one"]) == fetch_once_served(ports["two"]) == "hello"
    assert one.stop() == 0
    assert one.traces() == []
    assert fetch(ports["two"]) == "hello"
    inside = two.docker(
        "run", "--rm", IMAGE, "wget", "-qO-", f"http://host.docker.internal:{ports['two']}/"
    )
    assert inside == "hello"
    assert two.stop() == 0
    assert two.traces() == []


def test_containers_survive_a_crash_of_the_agent(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start()
    machine.docker.load_image()
    port = free_port()
    container = machine.docker.serve("web", "-p", f"{port}:80")
    machine.wait_forward("forwarding", f"0.0.0.0:{port}")
    engine = machine.engine_pid()
    with start_program(
        ["docker", "-H", f"unix://{machine.docker_socket}", "wait", container]
    ) as client:
        machine.kill_agent()
        assert machine.directory.status() is InstanceStatus.BROKEN
        machine.start()
        assert "Adopted the running host driver" in machine.log()
        assert machine.engine_pid() == engine
        assert machine.docker("ps", "-q", "--no-trunc") == container
        machine.wait_forward("forwarding", f"0.0.0.0:{port}")
        assert fetch(port) == "hello"
        assert client.poll() is None  # its connection to the engine is open
        machine.docker("kill", container)
        assert client.communicate()[0].strip() == "137"
    assert machine.stop() == 0
    assert machine.traces() == []


def test_detached_machine_is_adopted_by_another_agent(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start()
    engine = machine.engine_pid()
    assert asyncio.run(agentclient.detach(machine.directory.ha_sock, timeout_s=30))
    assert machine.ended() == 0
    assert not machine.directory.ha_pid.exists()
    assert not machine.directory.ha_sock.exists()
    machine.start()
    assert machine.engine_pid() == engine
    assert machine.stop() == 0
    assert machine.traces() == []


def test_killed_engine_ends_the_agent_and_leaves_nothing(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start()
    machine.docker.load_image()
    machine.docker.serve("web")
    os.kill(machine.engine_pid(), signal.SIGKILL)
    assert machine.ended() == 1
    assert machine.statuses()[-1]["errors"] == ["dockerd ended with signal 9"]
    assert machine.traces() == []
    machine.start()
    assert machine.docker("ps", "-a", "--format", "{{.Names}}") == "web"
    assert machine.stop() == 0


def test_next_start_cleans_up_after_everything_was_killed(
    hosts: HostWorld,
) -> None:
    machine = hosts.machine("m")
    machine.start()
    machine.docker.load_image()
    machine.docker.serve("web")
    machine.kill_agent()
    init_pid = machine.init_pid
    os.kill(init_pid, signal.SIGKILL)
    eventually(lambda: machine.directory.status() is InstanceStatus.STOPPED, "the end")
    assert any(machine.paths.comment in trace for trace in machine.traces())
    machine.start()
    assert machine.init_pid != init_pid
    assert machine.stop() == 0
    assert machine.traces() == []


def test_cleanup_kills_a_machine_without_an_agent(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start()
    machine.docker.load_image()
    machine.docker.serve("web")
    machine.kill_agent()
    asyncio.run(cleanup(machine.directory))
    machine.directory.remove_temporary_files()
    assert machine.traces() == []
    asyncio.run(cleanup(machine.directory))  # idempotent


def test_interrupt_during_the_start_leaves_nothing(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.start(until="sshLocalPort")
    assert machine.stop() == 0
    assert machine.traces() == []


def test_docker_socket_in_use_is_not_replaced(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine.docker_socket))
        other.listen()
        machine.spawn()
        assert machine.ended() == 1
        (error,) = machine.statuses()[-1]["errors"]
        assert error.startswith(f'the socket "{machine.docker_socket}" is in use by process')
        assert f"process {os.getpid()} (" in error
        assert machine.docker_socket.is_socket()
    machine.start()  # no process listens any more: it is stale
    assert machine.docker("info", "--format", "{{.DockerRootDir}}") == str(
        machine.paths.data("docker")
    )
    assert machine.stop() == 0
    assert machine.traces() == []


def test_failed_engine_start_has_the_engines_log(hosts: HostWorld) -> None:
    machine = hosts.machine("m")
    machine.paths.data("docker").write_text("a file where dockerd wants a directory")
    machine.spawn()
    assert machine.ended() == 1
    (error,) = machine.statuses()[-1]["errors"]
    assert error.startswith("dockerd ended with exit status 1: ")
    assert str(machine.paths.data("docker")) in error
    assert machine.traces() == []
    machine.paths.data("docker").unlink()
    machine.start()
    assert machine.stop() == 0


def test_containerd_runs_with_its_own_socket(
    hosts: HostWorld, real_part: Callable[[str], Path]
) -> None:
    ctr = real_part("ctr")
    machine = hosts.machine("m", engine="containerd")
    machine.start()
    address = machine.directory.sockets / "containerd.sock"
    assert "Server:" in run(ctr, "-a", address, "version")
    assert machine.wait_forward("not-forwarding", str(machine.docker_socket))["error"] == (
        "the engine containerd has no Docker socket"
    )
    assert "degraded" not in machine.wait("running")
    engine = machine.engine_pid("containerd")
    machine.kill_agent()
    machine.start()
    assert machine.engine_pid("containerd") == engine
    assert machine.stop() == 0
    assert machine.traces() == []
    assert not address.exists()


def test_machine_without_an_engine_is_represented_by_its_agent(hosts: HostWorld) -> None:
    machine = hosts.machine("m", text="vmType: host\nenv: {A: b}\n")
    machine.start()
    assert machine.init_pid == machine.agent_pid
    assert machine.directory.status() is InstanceStatus.RUNNING
    machine.kill_agent()
    assert machine.directory.status() is InstanceStatus.STOPPED
    machine.start()
    assert machine.stop() == 0
    assert machine.traces() == []


def test_names_are_resolved_with_the_resolvers_of_the_host(
    hosts: HostWorld, tmp_path: Path
) -> None:
    """The resolver may listen on the loopback, which containers cannot reach."""
    address = f"127.{os.getpid() % 250 + 1}.7.53"
    with start_program([sys.executable, "-c", _RESOLVER, address]) as resolver:
        assert resolver.read_until() == ["ready\n"]
        resolv_conf = tmp_path / "resolv.conf"
        resolv_conf.write_text(f"nameserver {address}\n")
        hide = f'mount --bind {resolv_conf} /etc/resolv.conf && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", hide, "sh")
        machine = hosts.machine("m", prefix=prefix)
        machine.start()
        machine.docker.load_image()
        for flags in ((), ("--network", "net")):
            if flags:
                machine.docker("network", "create", "net")
            shown = machine.docker("run", "--rm", *flags, IMAGE, "nslookup", "some.example")
            assert "192.0.2.77" in shown
        assert machine.stop() == 0


_RESOLVER = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], 53))
print("ready", flush=True)
while True:
    query, sender = sock.recvfrom(1500)
    is_a = query[-16:].find(bytes([0, 1, 0, 1])) >= 0 or bytes([0, 0, 1, 0, 1]) in query
    head = query[:2] + bytes([0x81, 0x80, 0, 1, 0, 1 if is_a else 0, 0, 0, 0, 0])
    end = query.index(0, 12) + 5
    record = bytes([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 77])
    sock.sendto(head + query[12:end] + (record if is_a else b""), sender)
"""


@pytest.mark.parametrize("phase", [HostMachinePhase.STARTING, HostMachinePhase.STOPPING])
def test_machine_without_a_finished_start_or_stop_is_not_adopted(
    hosts: HostWorld, phase: HostMachinePhase
) -> None:
    """An agent died while it started or stopped its machine."""
    machine = hosts.machine("m")
    machine.start()
    init_pid = machine.init_pid
    machine.kill_agent()
    state = HostMachineState.read(machine.paths.state_file)
    assert state is not None
    assert state.phase is HostMachinePhase.RUNNING
    replace(state, phase=phase).write(machine.paths.state_file)
    if phase is HostMachinePhase.STOPPING:
        os.kill(init_pid, signal.SIGTERM)
    machine.start()
    assert machine.init_pid != init_pid
    assert machine.stop() == 0
    assert machine.traces() == []


@pytest.mark.parametrize("delay_s", [0.05, 0.15, 0.25, 0.4])
def test_agent_killed_at_any_step_of_the_start_is_replaced(
    hosts: HostWorld, delay_s: float
) -> None:
    machine = hosts.machine("m")
    machine.spawn()
    assert machine.agent is not None
    time.sleep(delay_s)  # not a wait: each delay hits a different step
    machine.agent.kill()
    machine.agent.wait()
    machine.start()
    assert machine.docker("version", "--format", "{{.Server.Version}}")
    assert machine.stop() == 0
    assert machine.traces() == []
