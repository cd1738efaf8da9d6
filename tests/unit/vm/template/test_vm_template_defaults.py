# SPDX-License-Identifier: Apache-2.0
"""What a template means on a machine, for one instance."""

from dataclasses import replace
from pathlib import Path

import pytest

from rdd.vm.template import HostFacts, Template, Variables, apply_defaults, expand, parse, resolve

GIB = 1 << 30
FACTS = HostFacts(
    arch="x86_64", cpus=8, memory_bytes=32 * GIB, user="jo", uid=501, home=Path("/home/jo")
)
VARIABLES = Variables(
    name="my.vm", dir="/l/my.vm", home="/home/jo", user="jo", uid=501, param={"A": "1", "E": ""}
)


def use(text: str, driver: str = "qemu") -> Template:
    return resolve(parse(text), FACTS, name="vm", directory=Path("/l/vm"), driver=driver)


@pytest.mark.parametrize(
    ("cpus", "memory", "expected"),
    [(8, 32 * GIB, (4, 4 * GIB)), (2, 32 * GIB, (2, 4 * GIB)), (8, 2 * GIB, (4, GIB))],
)
def test_machine_gets_a_share_of_the_host(
    cpus: int, memory: int, expected: tuple[int, int]
) -> None:
    template = apply_defaults(Template(), replace(FACTS, cpus=cpus, memory_bytes=memory))
    assert (template.cpus, template.memory) == expected
    assert (template.disk, template.arch, template.os) == (100 * GIB, "x86_64", "Linux")


def test_what_is_given_stays() -> None:
    template = apply_defaults(parse("cpus: 1\nmemory: 1GiB\ndisk: 5GiB\narch: aarch64"), FACTS)
    assert (template.cpus, template.memory, template.disk) == (1, GIB, 5 * GIB)
    assert template.arch == "aarch64"


def test_files_to_boot_are_for_the_architecture_of_the_image() -> None:
    (image,) = apply_defaults(
        parse("images: [{location: /a, kernel: {location: /k}, initrd: {location: /i}}]"), FACTS
    ).images
    assert image.kernel and image.initrd
    assert image.arch == image.kernel.arch == image.initrd.arch == "x86_64"


@pytest.mark.parametrize(
    ("user", "uid", "expected"),
    [
        pytest.param("jo", 501, ("jo", 501), id="like here"),
        pytest.param("root", 0, ("lima", 1000), id="root"),
        pytest.param("Jo Doe", 501, ("lima", 501), id="name that Linux does not take"),
    ],
)
def test_guest_has_a_user_like_the_one_here(user: str, uid: int, expected: tuple[str, int]) -> None:
    template = apply_defaults(Template(), replace(FACTS, user=user, uid=uid), driver="qemu")
    assert (template.user.name, template.user.uid) == expected


def test_without_a_guest_the_user_is_the_one_here() -> None:
    user = use("user: {name: other, home: /other}", "host").user
    assert (user.name, user.home, user.uid) == ("jo", "/home/jo", 501)


def test_home_in_the_guest_is_named_after_its_user() -> None:
    assert use("user: {name: al}").user.home == "/home/al.guest"
    assert use("user: {name: al, home: '/h/{{.User}}'}").user.home == "/h/al"


def test_paths_here_are_absolute_and_follow_the_home_directory() -> None:
    template = use(
        """
        mounts:
        - {location: "~"}
        - {location: "~/x/"}
        - {location: "{{.Dir}}/y", mountPoint: "{{.Home}}/y"}
        copyToHost: [{guest: "{{.Home}}/f", host: "~/f"}]
        portForwards:
        - {guestSocket: "/run/user/{{.UID}}/a.sock", hostSocket: a.sock}
        - {guestSocket: /b, hostSocket: "{{.Dir}}/b.sock"}
        - {guestSocket: /c, hostSocket: "~/c.sock"}
        """
    )
    assert [(mount.location, mount.mount_point) for mount in template.mounts] == [
        ("/home/jo", "/home/jo"),
        ("/home/jo/x", "/home/jo/x"),
        ("/l/vm/y", "/home/jo.guest/y"),
    ]
    assert (template.copy_to_host[0].guest, template.copy_to_host[0].host) == (
        "/home/jo.guest/f",
        "/home/jo/f",
    )
    assert [(rule.guest_socket, rule.host_socket) for rule in template.port_forwards] == [
        ("/run/user/501/a.sock", "/l/vm/sock/a.sock"),
        ("/b", "/l/vm/b.sock"),
        ("/c", "/home/jo/c.sock"),
    ]


def test_params_reach_scripts_files_and_probes() -> None:
    template = use(
        """
        param: {A: x, B: ""}
        provision:
        - {script: "echo {{.Param.A}} [{{ .Param.B }}]"}
        - {mode: data, path: "/etc/{{.Param.A}}", content: "{{.Param.A}}={{.Hostname}}"}
        probes: [{script: "#!/bin/sh\\n{{.Param.A}}", description: "{{.Name}}", hint: "{{.User}}"}]
        """
    )
    assert template.provision[0].script == "echo x []"
    assert (template.provision[1].path, template.provision[1].content) == ("/etc/x", "x=lima-vm")
    probe = template.probes[0]
    assert (probe.script, probe.description, probe.hint) == ("#!/bin/sh\nx", "vm", "jo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{.Name}} {{.Hostname}} {{.Dir}}", "my.vm lima-my-vm /l/my.vm"),
        ("{{ .Home }}:{{- .User -}}:{{.UID}}", "/home/jo:jo:501"),
        ("{{.Param.A}}{{.Param.E}}", "1"),
        ("{{.Param.Missing}}", "{{.Param.Missing}}"),
        ("docker ps --format '{{.ID}}'", "docker ps --format '{{.ID}}'"),
        ('{{"{{"}}.ID{{`}}`}}', "{{.ID}}"),
        ("no braces", "no braces"),
        ("{{.Namely}} {{.name}}", "{{.Namely}} {{.name}}"),
    ],
)
def test_names_between_braces_are_replaced_and_other_braces_stay(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@pytest.mark.parametrize(
    ("rule", "guest", "host"),
    [
        pytest.param("{}", (1, 65535), (1, 65535), id="everything"),
        pytest.param("{guestPort: 80}", (80, 80), (80, 80), id="same port"),
        pytest.param("{guestPort: 80, hostPort: 8080}", (80, 80), (8080, 8080), id="other port"),
        pytest.param("{hostPort: 80}", (80, 80), (80, 80), id="by the port here"),
        pytest.param("{guestPortRange: [5, 9]}", (5, 9), (5, 9), id="same range"),
        pytest.param(
            "{guestPortRange: [5, 9], hostPortRange: [15, 19]}", (5, 9), (15, 19), id="other range"
        ),
        pytest.param("{guestSocket: /a, hostSocket: b}", None, None, id="sockets"),
        pytest.param("{guestPort: 80, hostSocket: b}", (80, 80), None, id="port to socket"),
    ],
)
def test_forward_gets_the_ports_it_leaves_out(
    rule: str, guest: tuple[int, int] | None, host: tuple[int, int] | None
) -> None:
    (forward,) = use(f"portForwards: [{rule}]").port_forwards
    assert (forward.guest_port_range, forward.host_port_range) == (guest, host)
    assert (forward.guest_ip, forward.host_ip) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize(
    ("rule", "ip", "must_be_zero"),
    [
        ("{}", "127.0.0.1", False),
        ("{guestIP: 0.0.0.0}", "0.0.0.0", True),
        ("{guestIP: 0.0.0.0, guestIPMustBeZero: false}", "0.0.0.0", False),
        ("{guestIPMustBeZero: true}", "0.0.0.0", True),
        ("{guestIP: 1.2.3.4}", "1.2.3.4", False),
    ],
)
def test_forward_of_all_addresses_means_only_them_unless_told_otherwise(
    rule: str, ip: str, must_be_zero: bool
) -> None:
    (forward,) = use(f"portForwards: [{rule}]").port_forwards
    assert (forward.guest_ip, forward.guest_ip_must_be_zero) == (ip, must_be_zero)


def test_plain_machine_has_no_mounts_and_static_forwards_only() -> None:
    template = use("plain: true\nmounts: [{location: /a}]\nportForwards: [{}, {static: true}]")
    assert template.mounts == ()
    assert [rule.static for rule in template.port_forwards] == [True]


def test_networks_are_numbered() -> None:
    networks = use("networks: [{lima: a}, {lima: b, interface: x}, {lima: c}]").networks
    assert [network.interface for network in networks] == ["lima0", "x", "lima2"]


def test_facts_are_those_of_this_machine(tmp_path: Path) -> None:
    facts = HostFacts.gather(tmp_path)
    assert facts.cpus >= 1 and facts.memory_bytes > GIB // 4
    assert facts.home == tmp_path and facts.user
