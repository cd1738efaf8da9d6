# SPDX-License-Identifier: Apache-2.0
"""Defaulting and resolution of templates."""

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


def test_given_values_are_kept() -> None:
    template = apply_defaults(parse("cpus: 1\nmemory: 1GiB\ndisk: 5GiB\narch: aarch64"), FACTS)
    assert (template.cpus, template.memory, template.disk) == (1, GIB, 5 * GIB)
    assert template.arch == "aarch64"


def test_boot_files_have_the_architecture_of_the_image() -> None:
    (image,) = apply_defaults(
        parse("images: [{location: /a, kernel: {location: /k}, initrd: {location: /i}}]"), FACTS
    ).images
    assert image.kernel and image.initrd
    assert image.arch == image.kernel.arch == image.initrd.arch == "x86_64"


@pytest.mark.parametrize(
    ("user", "uid", "expected"),
    [
        pytest.param("jo", 501, ("jo", 501), id="like the host"),
        pytest.param("root", 0, ("lima", 1000), id="root"),
        pytest.param("Jo Doe", 501, ("lima", 501), id="invalid on Linux"),
    ],
)
def test_guest_user_is_named_like_the_host_user(
    user: str, uid: int, expected: tuple[str, int]
) -> None:
    template = apply_defaults(Template(), replace(FACTS, user=user, uid=uid), driver="qemu")
    assert (template.user.name, template.user.uid) == expected


def test_without_a_guest_the_user_is_the_host_user() -> None:
    user = use("user: {name: other, home: /other}", "host").user
    assert (user.name, user.home, user.uid) == ("jo", "/home/jo", 501)


def test_guest_home_is_named_after_the_user() -> None:
    assert use("user: {name: al}").user.home == "/home/al.guest"
    assert use("user: {name: al, home: '/h/{{.User}}'}").user.home == "/h/al"


def test_host_paths_are_absolute_with_home_expanded() -> None:
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
def test_variables_are_expanded_and_other_braces_kept(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@pytest.mark.parametrize(
    ("rule", "guest", "host"),
    [
        pytest.param("{}", (1, 65535), (1, 65535), id="everything"),
        pytest.param("{guestPort: 80}", (80, 80), (80, 80), id="same port"),
        pytest.param("{guestPort: 80, hostPort: 8080}", (80, 80), (8080, 8080), id="other port"),
        pytest.param("{hostPort: 80}", (80, 80), (80, 80), id="host port only"),
        pytest.param("{guestPortRange: [5, 9]}", (5, 9), (5, 9), id="same range"),
        pytest.param(
            "{guestPortRange: [5, 9], hostPortRange: [15, 19]}", (5, 9), (15, 19), id="other range"
        ),
        pytest.param("{guestSocket: /a, hostSocket: b}", None, None, id="sockets"),
        pytest.param("{guestPort: 80, hostSocket: b}", (80, 80), None, id="port to socket"),
    ],
)
def test_missing_ports_of_a_forward_are_filled_in(
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
def test_guest_ip_zero_implies_must_be_zero(rule: str, ip: str, must_be_zero: bool) -> None:
    (forward,) = use(f"portForwards: [{rule}]").port_forwards
    assert (forward.guest_ip, forward.guest_ip_must_be_zero) == (ip, must_be_zero)


def test_plain_machine_has_no_mounts_and_static_forwards_only() -> None:
    template = use("plain: true\nmounts: [{location: /a}]\nportForwards: [{}, {static: true}]")
    assert template.mounts == ()
    assert [rule.static for rule in template.port_forwards] == [True]


def test_networks_are_numbered() -> None:
    networks = use("networks: [{lima: a}, {lima: b, interface: x}, {lima: c}]").networks
    assert [network.interface for network in networks] == ["lima0", "x", "lima2"]


def test_facts_are_those_of_this_host(tmp_path: Path) -> None:
    facts = HostFacts.gather(tmp_path)
    assert facts.cpus >= 1 and facts.memory_bytes > GIB // 4
    assert facts.home == tmp_path and facts.user
