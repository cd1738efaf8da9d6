# SPDX-License-Identifier: Apache-2.0
"""Egress of a machine of the driver `host`.

This machine is a network namespace of the test's own, connected by a cable with another one,
the outside network, which has no routes to the networks of containers.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import IMAGE, HostWorld, Machine, eventually, host_world, run
from tests.programs import DEVNULL, start_program

_HOLD = "ip link set lo up && echo ready && exec sleep 3600"
OUTSIDE = "198.51.100.2"
_SERVER = (
    "import http.server as h; s = h.HTTPServer(('0.0.0.0', 8000), h.SimpleHTTPRequestHandler); "
    "print('ready', flush=True); s.serve_forever()"
)


class Net:
    """A network namespace, kept by a process."""

    def __init__(self) -> None:
        self.process = start_program(["unshare", "--net", "sh", "-c", _HOLD])
        assert self.process.read_until() == ["ready\n"]
        self.prefix = ("nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--")

    def ip(self, line: str) -> None:
        run(*self.prefix, "ip", *line.split())

    def is_forwarding(self, interface: str) -> bool:
        path = f"/proc/sys/net/ipv4/conf/{interface}/forwarding"
        return run(*self.prefix, "cat", path) == "1"

    def rules(self) -> str:
        shown = run(*self.prefix, "iptables-save")
        return re.sub(r"\[\d+:\d+\]", "", re.sub(r"^#.*\n?", "", shown, flags=re.M))

    def close(self) -> None:
        self.process.end()


@pytest.fixture
def nets(real_part: Callable[[str], Path]) -> Iterator[tuple[HostWorld, Net, Net]]:
    """Machines, their network namespace and the network outside."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the namespaces")
    for part in ("dockerd", "docker", "busybox", "ip", "iptables"):
        real_part(part)
    here, outside = Net(), Net()
    try:
        here.ip(f"link add up0 type veth peer name up0 netns {outside.process.pid}")
        for net, address in ((here, "198.51.100.1"), (outside, OUTSIDE)):
            net.ip(f"addr add {address}/24 dev up0")
            net.ip("link set up0 up")
        with host_world() as world:
            yield world, here, outside
    finally:
        here.close()
        outside.close()


def _has_rules(net: Net, machine: Machine) -> bool:
    return machine.paths.comment in net.rules()


def test_containers_have_egress_and_forwarding_is_restored(
    nets: tuple[HostWorld, Net, Net], tmp_path: Path
) -> None:
    world, here, outside = nets
    here.ip(f"route add default via {OUTSIDE}")
    before = here.rules()
    assert not here.is_forwarding("up0")
    (tmp_path / "index.html").write_text("the world")
    with start_program(
        [*outside.prefix, sys.executable, "-c", _SERVER], cwd=tmp_path, stderr=DEVNULL
    ) as server:
        assert server.read_until() == ["ready\n"]
        machine = world.machine("m", prefix=here.prefix)
        machine.start()
        machine.docker.load_image()
        eventually(lambda: machine.paths.comment in here.rules(), "egress")
        url = f"http://{OUTSIDE}:8000/"
        assert machine.docker("run", "--rm", IMAGE, "wget", "-qO-", url) == "the world"
        assert here.is_forwarding("up0")
        assert not here.is_forwarding("all")
        guard = f"-A FORWARD -i up0 -m comment --comment {machine.paths.comment} -j DROP"
        assert guard in here.rules()
        assert machine.stop() == 0
    assert not here.is_forwarding("up0")
    assert "-A" not in before + here.rules()
    assert machine.traces() == []


def test_later_route_enables_egress(nets: tuple[HostWorld, Net, Net]) -> None:
    world, here, _ = nets
    machine = world.machine("m", prefix=here.prefix)
    machine.start()
    eventually(lambda: machine.paths.comment in here.rules(), "the rules")
    assert not here.is_forwarding("up0")
    here.ip(f"route add default via {OUTSIDE}")
    eventually(lambda: here.is_forwarding("up0"), "egress")
    machine.kill_agent()
    machine.start()  # the adopting agent restores the recorded forwarding
    assert machine.stop() == 0
    assert not here.is_forwarding("up0")


def test_forwarding_stays_enabled_while_another_machine_needs_it(
    nets: tuple[HostWorld, Net, Net],
) -> None:
    world, here, _ = nets
    here.ip(f"route add default via {OUTSIDE}")
    one, two = (world.machine(name, prefix=here.prefix) for name in ("one", "two"))
    for machine in (one, two):
        machine.start()
        eventually(partial(_has_rules, here, machine), "the rules")
    assert one.stop() == 0
    assert here.is_forwarding("up0")  # the other machine needs it
    run(*here.prefix, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    assert two.stop() == 0
    assert here.is_forwarding("up0")  # the host is a router now


def test_networks_of_the_host_are_avoided(nets: tuple[HostWorld, Net, Net]) -> None:
    world, here, _ = nets
    here.ip("addr add 10.133.0.1/16 dev up0")
    here.ip("addr add 172.17.0.1/16 dev up0")
    machine = world.machine("m", prefix=here.prefix)
    machine.start()
    assert '"host_ip": "172.30.' in machine.paths.state_file.read_text()
    subnet = "{{(index .IPAM.Config 0).Subnet}}"
    bridge = machine.docker("network", "inspect", "bridge", "-f", subnet)
    assert not bridge.startswith(("172.17.", "10.133."))
    assert machine.stop() == 0
