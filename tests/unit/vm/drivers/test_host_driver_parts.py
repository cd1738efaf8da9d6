# SPDX-License-Identifier: Apache-2.0
"""The parts of the driver `host` that need no engine."""

import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rdd.vm.drivers import catalog
from rdd.vm.drivers.host import dns, network, rootless_engine, services, unhandled_signals
from rdd.vm.drivers.host import listeners as listening
from rdd.vm.drivers.host.availability import engine_availability
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import EngineNetwork
from rdd.vm.drivers.host.shell import shell_command
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.drivers.protocol import Listener, ShellRequest
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template import HostFacts, Template, parse, resolve

FACTS = HostFacts(
    arch="x86_64", cpus=2, memory_bytes=1 << 33, user="ann", uid=1000, home=Path("/home/ann")
)
DIRECTORY = InstanceDirectory(Path("/lima/m"))
PATHS = MachinePaths(DIRECTORY)
ENGINE = """
param: {CONTAINER_ENGINE: moby, HOST_DOCKER_SOCKET: /home/ann/d.sock}
portForwards:
- {guestSocket: /var/run/docker.sock, hostSocket: "{{.Param.HOST_DOCKER_SOCKET}}"}
env: {COLOUR: green}
"""


def template(text: str) -> Template:
    return resolve(parse(text), FACTS, name="m", directory=DIRECTORY.path, driver="host")


# Availability: the programs are links in a directory that is the whole PATH.

ROOT_SET = ("dockerd", "containerd", "runc", "ip", "iptables", "iptables-restore", "iptables-save")
ROOTLESS_SET = ("dockerd", "containerd", "runc", "ip", "iptables", "rootlesskit", "newuidmap")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Return a factory for environments with exactly the named programs."""
    monkeypatch.setattr("rdd.vm.drivers.host.commands._DAEMON_PATH", ())

    def install(*names: str) -> dict[str, str]:
        for name in names:
            (tmp_path / name).symlink_to("/bin/sh")
        return {"PATH": str(tmp_path)}

    return install


def test_complete_installation_is_usable(programs: Callable[..., dict[str, str]]) -> None:
    assert engine_availability("moby", programs(*ROOT_SET), is_root=True).usable


@pytest.mark.parametrize(
    ("engine", "program"),
    [
        pytest.param("moby", "dockerd", id="moby"),
        pytest.param("containerd", "containerd", id="containerd"),
    ],
)
def test_engine_of_the_template_precedes_that_of_the_host(
    programs: Callable[..., dict[str, str]], tmp_path: Path, engine: str, program: str
) -> None:
    environment = programs(*(name for name in ROOT_SET if name != program))
    directory = tmp_path / "engine"
    text = f"param: {{CONTAINER_ENGINE: {engine}, CONTAINER_ENGINE_DIR: {directory}}}"
    wanted = parse(text)
    assert services.missing_engine(wanted) == f'the engine "{directory}" is not installed'
    directory.mkdir()
    (directory / program).symlink_to("/bin/sh")
    assert services.missing_engine(wanted) == ""
    assert not engine_availability(engine, environment, is_root=True).usable
    found = services.with_engine(environment, wanted)
    assert found["PATH"] == f"{directory}:{environment['PATH']}"
    assert engine_availability(engine, found, is_root=True).usable
    assert services.with_engine(environment, parse("")) == environment


def test_rootless_engine_of_the_template_has_its_rootlesskit(
    programs: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    environment = programs(*ROOTLESS_SET, "slirp4netns")
    directory = tmp_path / "engine"
    directory.mkdir()
    for name in ("dockerd", "rootlesskit"):
        (directory / name).symlink_to("/bin/sh")
    wanted = parse(f"param: {{CONTAINER_ENGINE: moby, CONTAINER_ENGINE_DIR: {directory}}}")
    found = services.with_engine(environment, wanted)
    service = services.moby(
        PATHS, wanted, EngineNetwork(is_rootless=True), program=Path("dockerd"), environment=found
    )
    words = rootless_engine.command(service, tmp_path, found)
    assert words[0] == str(directory / "rootlesskit")
    assert service.environment["PATH"].startswith(f"{directory}:")


@pytest.mark.parametrize(
    ("missing", "package"),
    [
        pytest.param("dockerd", "docker.io", id="engine"),
        pytest.param("containerd", "containerd", id="containerd"),
        pytest.param("runc", "runc", id="runc"),
        pytest.param("ip", "iproute2", id="ip"),
        pytest.param("iptables-restore", "iptables", id="iptables"),
    ],
)
def test_missing_program_is_reported_with_its_package(
    programs: Callable[..., dict[str, str]], missing: str, package: str
) -> None:
    environment = programs(*(name for name in ROOT_SET if name != missing))
    response = engine_availability("moby", environment, is_root=True)
    assert not response.usable
    assert response.reason.startswith(f"{missing} is not installed (")
    assert response.fix == f"apt-get install -y --no-install-recommends {package}"


def test_all_missing_packages_are_in_one_command(programs: Callable[..., dict[str, str]]) -> None:
    response = engine_availability("moby", programs("ip"), is_root=True)
    assert response.fix.endswith(" docker.io containerd runc iptables")


def test_rejects_an_unknown_engine() -> None:
    response = engine_availability("lxc", {}, is_root=True)
    assert response.reason == 'does not support the container engine "lxc"'
    assert response.fix == "set CONTAINER_ENGINE to moby, containerd"


def test_other_systems_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert engine_availability("moby", {}).reason == "works on Linux only"


def test_template_without_an_engine_needs_nothing() -> None:
    assert catalog.availability("host", {"PATH": ""}, template("{}")).usable


def test_rootless_engine_needs_helpers(
    programs: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    environment = programs(*ROOTLESS_SET)
    response = engine_availability("moby", environment, is_root=False)
    assert response.fix == "apt-get install -y --no-install-recommends uidmap slirp4netns"
    environment = programs("newgidmap", "slirp4netns")
    tun = tmp_path / "tun"
    response = engine_availability("moby", environment, is_root=False, tun=tun)
    assert f"{tun} is not open to this user" in response.reason
    tun.touch()
    assert engine_availability("moby", environment, is_root=False, tun=tun).usable


# Services


def test_dockerd_has_its_own_files_and_sockets() -> None:
    engine_network = EngineNetwork(
        nameserver="10.1.0.2", gateway="10.1.0.1", pools=["172.20.0.0/16"]
    )
    made = services.moby(
        PATHS, template(ENGINE), engine_network, program=Path("/d"), environment={"SECRET": "x"}
    )
    assert json.loads(made.config) == {
        "data-root": "/lima/m/docker",
        "exec-root": "/run/docker",
        "pidfile": "/run/docker.pid",
        "hosts": ["unix:///run/docker.sock", "unix:///home/ann/d.sock"],
        "group": "0",
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "log-driver": "json-file",
        "log-opts": {"max-size": "20m", "max-file": "5"},
        "dns": ["10.1.0.2"],
        "host-gateway-ip": "10.1.0.1",
        "default-address-pools": [{"base": "172.20.0.0/16", "size": 24}],
    }
    assert made.environment == {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    assert made.arguments == ("--config-file", "/lima/m/dockerd.conf")


def test_containerd_listens_in_the_directory_of_the_machine() -> None:
    made = services.containerd(PATHS, program=Path("/c"), environment={"PATH": "/usr/sbin"})
    assert 'address = "/lima/m/sock/containerd.sock"' in made.config
    assert 'root = "/lima/m/containerd"' in made.config
    assert made.environment == {"PATH": "/usr/sbin:/sbin"}


def test_resource_names_are_unique_and_short() -> None:
    other = MachinePaths(InstanceDirectory(Path("/lima2/m")))
    assert PATHS.link != other.link
    assert len(PATHS.link.encode()) <= 15  # the kernel's limit


def test_rootlesskit_gets_the_engine_as_its_command(
    programs: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    environment = programs("rootlesskit", "slirp4netns", "rootlesskit-docker-proxy")
    service = services.moby(
        PATHS,
        template(ENGINE),
        EngineNetwork(is_rootless=True),
        program=Path("/usr/sbin/dockerd"),
        environment=environment,
    )
    words = rootless_engine.command(service, Path("/s"), environment)
    assert words[:3] == [str(tmp_path / "rootlesskit"), "--state-dir=/s", "--net=slirp4netns"]
    assert words[-1].endswith(
        "exec /usr/sbin/dockerd --rootless --config-file /lima/m/dockerd.conf "
        f"--userland-proxy-path {tmp_path / 'rootlesskit-docker-proxy'}"
    )
    assert "cgroup-parent" not in service.config


def test_shell_has_the_environment_of_the_template() -> None:
    request = ShellRequest(
        command=["echo", "a b"],
        environment={"HOME": "/home/ann", "SHELL": "/bin/zsh"},
        workdir="/tmp",
    )
    opened = shell_command(DIRECTORY, template(ENGINE), request)
    assert opened.argv == ("/bin/zsh", "-l", "-c", "echo 'a b'")
    assert opened.env == {
        "HOME": "/home/ann",
        "SHELL": "/bin/zsh",
        "COLOUR": "green",
        "DOCKER_HOST": "unix:///home/ann/d.sock",
    }
    assert opened.cwd == Path("/tmp")


def test_shell_without_a_command_is_a_login_shell() -> None:
    request = ShellRequest(environment={}, shell="/bin/dash")
    opened = shell_command(DIRECTORY, template("{}"), request)
    assert opened.argv == ("/bin/dash", "-l")
    assert (opened.env, opened.cwd) == ({}, None)


def test_state_survives_a_round_trip_and_damage_is_none(tmp_path: Path) -> None:
    state = HostMachineState(
        engine="moby",
        mode="root",
        host_ip="10.1.0.1",
        guest_ip="10.1.0.2",
        uplinks=("eth0",),
        sockets=("/d.sock",),
    )
    state.write(tmp_path / "host.json")
    assert json.loads((tmp_path / "host.json").read_text())["state"] == "running"
    assert HostMachineState.read(tmp_path / "host.json") == state
    (tmp_path / "host.json").write_text('{"engine": ')
    assert HostMachineState.read(tmp_path / "host.json") is None
    assert HostMachineState.read(tmp_path / "none") is None


# Networks

ROUTES = """\
default via 192.0.2.1 dev eth0 proto dhcp
10.133.0.0/17 dev wg0 table 51820 scope link
local 127.0.0.0/8 dev lo table local proto kernel scope host src 127.0.0.1
172.17.0.0/16 dev docker0 proto kernel scope link src 172.17.0.1 linkdown
broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.2
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
unreachable 198.51.100.0/24
"""


def test_default_route_is_not_a_network_in_use() -> None:
    assert [str(found) for found in network.used_networks(ROUTES)] == [
        "10.133.0.0/17",
        "127.0.0.0/8",
        "172.17.0.0/16",
        "192.0.2.255/32",
        "192.0.2.0/24",
        "198.51.100.0/24",
    ]


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
def test_subnet_does_not_overlap_with_networks_in_use(seed: int) -> None:
    used = network.used_networks(ROUTES)
    subnet = next(network.free_subnets(used, seed=seed))
    assert subnet.prefixlen == 30
    assert not any(subnet.overlaps(other) for other in used)


def test_all_ranges_are_tried() -> None:
    used = [network.Network("10.0.0.0/8")]
    assert str(next(network.free_subnets(used, seed=0))) == "172.30.0.0/30"
    used += [network.Network("172.16.0.0/12"), network.Network("192.168.0.0/16")]
    assert list(network.free_subnets(used, seed=0)) == []


def test_container_pools_exclude_routed_networks() -> None:
    assert network.container_pools([network.Network("192.0.2.0/24")]) == []
    pools = network.container_pools(network.used_networks(ROUTES))
    assert "172.17.0.0/16" not in pools
    assert "172.18.0.0/16" in pools


# Listeners

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5 1
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 6 1
   2: 0100007F:1F92 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 7 1
"""
TCP6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 0 0 0
   1: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0 0 0
   2: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 0 0 0
"""
UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
 1289: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5 2
 1290: 0100007F:0036 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 5 2
"""


def test_parses_listeners_in_the_kernels_format() -> None:
    assert listening.parse(TCP, "tcp") == {
        Listener("tcp", "0.0.0.0", 8080),
        Listener("tcp", "127.0.0.1", 8081),
    }
    assert listening.parse(TCP6, "tcp") == {
        Listener("tcp", "::", 8080),
        Listener("tcp", "::1", 8081),
        Listener("tcp", "127.0.0.1", 8082),
    }
    assert listening.parse(UDP, "udp") == {Listener("udp", "127.0.0.1", 53)}


def test_own_listeners_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        mine = Listener("tcp", "127.0.0.1", port)
        assert mine in listening.scan(os.getpid())
        assert mine not in listening.scan(os.getpid(), without=[mine])


# DNS


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return (
        struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)
    )


def test_static_name_has_its_address() -> None:
    sent = query("Host.Docker.Internal")
    parsed = dns.parse_query(sent)
    assert parsed == ("host.docker.internal", 1, len(sent))
    response = dns.static_response(sent, len(sent), 1, "10.1.0.1")
    assert struct.unpack("!HHHH", response[:8]) == (7, 0x8180, 1, 1)
    assert response.endswith(socket.inet_aton("10.1.0.1"))


def test_static_name_has_no_ipv6_address() -> None:
    sent = query("host.docker.internal", 28)
    response = dns.static_response(sent, len(sent), 28, "10.1.0.1")
    assert struct.unpack("!HHHH", response[:8]) == (7, 0x8180, 1, 0)


def test_servfail_repeats_the_query() -> None:
    sent = query("a.example")
    response = dns.failure(sent)
    assert response is not None
    assert struct.unpack("!H", response[2:4])[0] & 0xF == 2  # SERVFAIL
    assert response[12:] == sent[12:]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="empty"),
        pytest.param(query("a")[:-1], id="cut short"),
        pytest.param(b"\0" * 12, id="no query"),
        pytest.param(query("a")[:2] + b"\x80" + query("a")[3:], id="a response"),
        pytest.param(query("a")[:12] + b"\xc0\x0c\0\1\0\1", id="a pointer"),
    ],
)
def test_invalid_queries_are_ignored(message: bytes) -> None:
    assert dns.parse_query(message) is None
    assert dns.failure(message) is None


def test_names_of_the_template_may_be_aliases() -> None:
    hosts = {
        "Lima-Rancher-Desktop": "lima-0",
        "host.a": "host.lima.internal",
        "b": "host.a",
        "c": "192.0.2.7",
        "loop": "loop",
    }
    names = dns.static_names(hosts, "10.1.0.1")
    assert (names["host.a"], names["b"], names["c"]) == ("10.1.0.1", "10.1.0.1", "192.0.2.7")
    assert names["host.docker.internal"] == "10.1.0.1"
    assert "loop" not in names
    assert "lima-rancher-desktop" not in names


def test_resolvers_and_search_list_are_those_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(
        "# made by\nsearch a.example\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n"
        "options edns0\n"
    )
    assert dns.nameservers(path) == ["127.0.0.53", "fe80::1"]
    assert dns.resolv_conf_text("10.1.0.2", path) == (
        "nameserver 10.1.0.2\nsearch a.example\noptions edns0\n"
    )
    assert dns.nameservers(tmp_path / "none") == []


# Unhandled signals

STATUS = "Name:\tsleep\nPPid:\t{parent}\nNSpid:\t{pids}\nSigCgt:\t{caught:016x}\n"


def process(pid: int, parent: int, pids: str, caught: int = 0) -> unhandled_signals.ProcessStatus:
    return unhandled_signals.parse(pid, STATUS.format(parent=parent, pids=pids, caught=caught))


def test_finds_first_processes_of_containers() -> None:
    every = [
        process(10, 1, "10 1"),  # the init process
        process(11, 10, "11 5"),  # a shim
        process(12, 11, "12 6 1"),  # a container
        process(13, 11, "13 7 9"),  # docker exec
        process(20, 1, "20"),  # a shim of the system
        process(21, 20, "21 1"),  # its container
    ]
    assert [found.pid for found in unhandled_signals.first_processes(10, every)] == [12]


@pytest.mark.parametrize(
    ("caught", "number", "receives_it"),
    [
        pytest.param(0, signal.SIGTERM, False, id="no handler"),
        pytest.param(1 << 14, signal.SIGTERM, True, id="handler"),
        pytest.param(1 << 14, signal.SIGQUIT, False, id="handler of another signal"),
    ],
)
def test_first_process_receives_only_handled_signals(
    caught: int, number: int, receives_it: bool
) -> None:
    assert process(12, 11, "12 6 1", caught).receives(number) is receives_it


def test_other_processes_receive_every_signal() -> None:
    assert process(13, 11, "13 7 9").receives(signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("SIGTERM", 15, id="name"),
        pytest.param("quit", 3, id="short name"),
        pytest.param("9", 9, id="number"),
        pytest.param("SIGRTMIN+3", signal.SIGRTMIN + 3, id="real time"),
        pytest.param("SIGNOPE", None, id="unknown"),
        pytest.param("SIGRTMIN+x", None, id="wrong offset"),
    ],
)
def test_parses_stop_signals_of_images(name: str, number: int | None) -> None:
    assert unhandled_signals.signal_number(name) == number
