# SPDX-License-Identifier: Apache-2.0
"""Validation rules of templates: each rule is violated once."""

import pytest

from rdd.vm.template import TemplateError, check, parse, validate
from rdd.vm.template.errors import in_limas_form

DIGEST = "sha256:" + "0" * 64


def problems(text: str, driver: str = "") -> list[str]:
    try:
        validate(text, driver=driver)
    except TemplateError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "arch: cray-1",
            'field `arch` must be "x86_64", "aarch64", "armv7l", "ppc64le", "riscv64" or "s390x"; '
            "got `cray-1`",
        ),
        ("cpus: -1", "field `cpus` must be at least 1; got `-1`"),
        (
            "ssh: {localPort: 70000}",
            "field `ssh.localPort` must be between 1 and 65535; got `70000`",
        ),
        ("images: [{}]", "field `images[0].location` must be set to a URL or a path"),
        (
            "mounts: [{location: '\"'}]",
            'field `mounts[0].location` must be an absolute path or begin with "~"; got `"`',
        ),
        (
            "portForwards: [{guestPortRange: [5, 1]}]",
            "field `portForwards[0].guestPortRange` must be two ports between 1 and 65535, the "
            "smaller first; got `[5, 1]`",
        ),
        ("vmType: wsl2", 'field `vmType` must be "qemu", "vz" or "host"; got `wsl2`'),
    ],
)
def test_fields_are_reported_in_the_form_of_lima(text: str, message: str) -> None:
    assert problems(text) == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "base: [template:default]",
            "base: must be empty: include the content of the other template",
        ),
        ("minimumLimaVersion: new", 'minimumLimaVersion: "new" must be a version such as "2.0.0"'),
        (
            "minimumLimaVersion: 3.0.0",
            'minimumLimaVersion: "3.0.0" is newer than 2.1, the newest supported',
        ),
        ("vmType: wsl2", 'vmType: "wsl2" must be "qemu", "vz" or "host"'),
        ("os: Plan9", 'os: "Plan9" must be "Linux", "Darwin" or "FreeBSD"'),
        (
            "cpuType: {vax: x}",
            'cpuType.vax: "vax" must be "x86_64", "aarch64", "armv7l", "ppc64le", "riscv64" or '
            '"s390x"',
        ),
        ("cpus: -1", "cpus: -1 must be at least 1"),
        ("mountType: nfs", 'mountType: "nfs" must be "reverse-sshfs", "9p" or "virtiofs"'),
        ('env: {"a b": c}', 'env: "a b" is not the name of an environment variable'),
        ("guestInstallPrefix: x", 'guestInstallPrefix: "x" must be an absolute path'),
        ("images: [{}]", "images[0].location: must be set to a URL or a path"),
        (
            "images: [{location: a.img}]",
            'images[0].location: "a.img" must be a URL or an absolute path',
        ),
        (
            "images: [{location: /a, digest: md5:0}]",
            'images[0].digest: "md5:0" must begin with "sha256:", "sha384:" or "sha512:"',
        ),
        (
            "images: [{location: /a, digest: 'sha256:12'}]",
            'images[0].digest: "sha256:12" must have 64 hexadecimal digits (0-9, a-f) after the '
            "colon",
        ),
        (
            "images: [{location: /a, arch: x86_64, kernel: {location: /k, arch: aarch64}}]",
            'images[0].kernel.arch: "aarch64" must be that of the image, "x86_64"',
        ),
        (
            "images: [{location: /a, initrd: {location: /i}}]",
            "images[0].initrd: needs images[0].kernel",
        ),
        ("additionalDisks: [{}]", "additionalDisks[0].name: must be set"),
        (
            "additionalDisks: [{name: a}, {name: a}]",
            'additionalDisks[1].name: "a" is already additionalDisks[0]',
        ),
        (
            "additionalDisks: [{name: ../x}]",
            'additionalDisks[0].name: "../x" must be letters and digits, separated by single ".", '
            '"_" or "-"',
        ),
        (
            "mounts: [{location: here}]",
            'mounts[0].location: "here" must be an absolute path or begin with "~"',
        ),
        (
            "mounts: [{location: ~root/x}]",
            'mounts[0].location: "~root/x" must begin with "~/": no home of another user',
        ),
        ("mounts: [{location: /usr/}]", 'mounts[0].location: "/usr" is a system path in the guest'),
        (
            "mounts: [{location: /a, mountPoint: b}]",
            'mounts[0].mountPoint: "b" must be an absolute path',
        ),
        (
            "mounts: [{location: /a, mountPoint: /home/u}]\nuser: {home: /home/u}",
            'mounts[0].mountPoint: "/home/u" is the home directory in the guest',
        ),
        ("ssh: {localPort: 70000}", "ssh.localPort: 70000 must be between 1 and 65535"),
        ("ssh: {localPort: 22}", "ssh.localPort: 22 is the port of ssh in the guest"),
        (
            "provision: [{mode: sometimes}]",
            'provision[0].mode: "sometimes" must be "system", "user", "boot", "data", '
            '"dependency", "ansible" or "yq"',
        ),
        (
            "provision: [{file: {url: x}}]",
            "provision[0].file: must be empty: put the text under provision[0].script",
        ),
        (
            "provision: [{skipDefaultDependencyResolution: true}]",
            'provision[0].skipDefaultDependencyResolution: only with mode "dependency"',
        ),
        ("provision: [{path: /a}]", 'provision[0].path: only with mode "data" or "yq"'),
        ("provision: [{content: a}]", 'provision[0].content: only with mode "data"'),
        (
            "provision: [{mode: data, path: /a}]",
            'provision[0].content: must be set with mode "data"',
        ),
        (
            "provision: [{mode: data, path: a, content: b}]",
            'provision[0].path: "a" must be an absolute path',
        ),
        (
            "provision: [{mode: data, path: /a, content: b, permissions: rw}]",
            'provision[0].permissions: "rw" must be octal, such as "644"',
        ),
        (
            "provision: [{mode: data, path: /a, content: b, script: c}]",
            'provision[0].script: must be empty with mode "data"',
        ),
        (
            "provision: [{mode: yq, path: /a}]",
            'provision[0].expression: must be set with mode "yq"',
        ),
        (
            "probes: [{mode: liveness, script: '#!/bin/sh'}]",
            'probes[0].mode: "liveness" must be "readiness"',
        ),
        ("probes: [{script: 'true'}]", 'probes[0].script: must begin with "#!", not "true"'),
        (
            "probes: [{file: {url: x}}]",
            "probes[0].file: must be empty: put the text under probes[0].script",
        ),
        (
            "portForwards: [{proto: sctp}]",
            'portForwards[0].proto: "sctp" must be "tcp", "udp" or "any"',
        ),
        (
            "portForwards: [{guestIP: here}]",
            'portForwards[0].guestIP: "here" must be an IP address',
        ),
        (
            "portForwards: [{guestIPMustBeZero: true, guestIP: 1.2.3.4}]",
            'portForwards[0].guestIPMustBeZero: only with guestIP 0.0.0.0, not "1.2.3.4"',
        ),
        (
            "portForwards: [{guestPort: 22}]",
            "portForwards[0].guestPort: 22 is the port of ssh in the guest",
        ),
        (
            "portForwards: [{guestPort: 80, guestSocket: /a, hostSocket: b}]",
            "portForwards[0].guestPort: must not be set together with guestSocket",
        ),
        (
            "portForwards: [{guestPort: 80, guestPortRange: [81, 81]}]",
            "portForwards[0].guestPort: must not be set together with guestPortRange",
        ),
        (
            "portForwards: [{guestPortRange: [9, 8]}]",
            "portForwards[0].guestPortRange: [9, 8] must be two ports between 1 and 65535, "
            "the smaller first",
        ),
        (
            "portForwards: [{guestPortRange: [1, 9], hostPortRange: [1, 8]}]",
            "portForwards[0].hostPortRange: [1, 8] must have as many ports as guestPortRange "
            "[1, 9]",
        ),
        (
            "portForwards: [{guestSocket: a, hostSocket: b}]",
            'portForwards[0].guestSocket: "a" must be an absolute path',
        ),
        (
            "portForwards: [{guestSocket: /a}]",
            "portForwards[0].guestSocket: needs a hostSocket or a hostPort to go to",
        ),
        (
            "portForwards: [{hostSocket: a}]",
            "portForwards[0].hostSocket: needs a guestSocket or a guestPort to come from",
        ),
        (
            "portForwards: [{guestPort: 1, hostPort: 1, reverse: true}]",
            "portForwards[0].reverse: needs guestSocket and hostSocket",
        ),
        (
            "copyToHost: [{guest: a, host: /b}]",
            'copyToHost[0].guest: "a" must be an absolute path',
        ),
        ("dns: [1.1.1.1]", "dns: must be empty unless hostResolver.enabled is false"),
        (
            "dns: [one]\nhostResolver: {enabled: false}",
            'dns[0]: "one" must be an IP address',
        ),
        (
            "hostResolver: {hosts: {a: }}",
            'hostResolver.hosts: "a": "" must be a name and a target',
        ),
        ("networks: [{}]", "networks[0]: exactly one of lima, socket and vzNAT must be set"),
        (
            "networks: [{lima: shared, macAddress: 1}]",
            'networks[0].macAddress: "1" must be six bytes, 52:55:…',
        ),
        (
            "networks: [{lima: shared, interface: a/b}]",
            'networks[0].interface: "a/b" must have at most 15 characters, no blanks and no '
            "slashes",
        ),
        (
            "networks: [{lima: shared}, {lima: other, interface: lima0}]",
            'networks[1].interface: "lima0" is already that of networks[0]',
        ),
        (
            "networks: [{lima: shared, interface: eth0}]",
            'networks[0].interface: "eth0" is the user-mode network',
        ),
        (
            "user: {name: Jo}",
            'user.name: "Jo" must be lower-case letters, digits, "_" and "-", at most 32',
        ),
        ("user: {name: root}", 'user.name: "root" exists in every guest: choose another name'),
        ("user: {shell: bash}", 'user.shell: "bash" must be an absolute path'),
        ("user: {uid: 0}", "user.uid: 0 must be between 1 and 4294967295"),
        ("caCerts: {certs: [x]}", "caCerts.certs[0]: must be a certificate in PEM form"),
        ("caCerts: {files: [x]}", 'caCerts.files[0]: "x" must be an absolute path'),
        ('param: {"1": x}', 'param: "1" must be letters, digits and _, beginning with a letter'),
        (
            "param: {A: x}",
            "param.A: is not used: no provision, probe, copyToHost, mount or socket of "
            "portForwards refers to {{.Param.A}} or PARAM_A",
        ),
        (
            'param: {A: "\\a"}\nprovision: [{script: $PARAM_A}]',
            'param.A: "\\x07" must have printable characters only',
        ),
        (
            'provision: [{script: "{{.Param.A}}"}]',
            "provision[0].script: refers to {{.Param.A}}, which param does not declare",
        ),
    ],
)
def test_violation_has_path_value_and_what_is_allowed(text: str, message: str) -> None:
    assert problems(text) == [in_limas_form(message)]


@pytest.mark.parametrize(
    "use",
    [
        "provision: [{script: 'echo $PARAM_A'}]",
        "provision: [{script: 'echo {{ .Param.A }}'}]",
        "provision: [{script: '{{if eq .Param.A \"x\"}}y{{end}}'}]",
        "provision: [{mode: data, path: /a, content: '{{.Param.A}}'}]",
        "probes: [{script: '#!/bin/sh\n{{.Param.A}}'}]",
        "copyToHost: [{guest: '/a', host: '{{.Param.A}}'}]",
        "portForwards: [{guestSocket: /a, hostSocket: '{{.Param.A}}'}]",
        "mounts: [{location: '{{.Param.A}}'}]",
    ],
)
def test_param_is_used_in_every_place_of_lima(use: str) -> None:
    assert problems("param: {A: /x}\n" + use) == []


def test_param_is_not_used_by_a_longer_name() -> None:
    (problem,) = problems("param: {A: x}\nprovision: [{script: $PARAM_AB}]")
    assert problem.startswith("field `param.A` is not used")


def test_virtual_machine_needs_an_image_and_host_does_not() -> None:
    assert problems("{}", "host") == []
    message = 'images: at least one image is required (only vmType "host" needs none)'
    assert problems("{}", "qemu") == [in_limas_form(message)]
    assert problems("{}", "lima") == [in_limas_form(message)]
    check(parse("{}"), driver="qemu", has_image=True)


def test_image_must_match_the_architecture() -> None:
    text = "arch: x86_64\nimages: [{location: /a, arch: aarch64}]"
    assert problems(text, "qemu") == [
        'field `images`: none is for arch "x86_64", only for "aarch64"',
    ]
    assert problems("arch: x86_64\nimages: [{location: /a}]", "qemu") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("os: Darwin", 'os: "Darwin" must be "Linux" with the qemu driver'),
        (
            "provision: [{mode: ansible, playbook: x}]",
            'provision[0].mode: "ansible" is not supported by the qemu driver, use "system", '
            '"user", "boot", "dependency" or "data"',
        ),
        (
            "networks: [{lima: shared}]",
            "networks: not supported by the qemu driver: guests have the user-mode network",
        ),
        ("rosetta: {enabled: true}", 'rosetta.enabled: only with vmType "vz"'),
        (
            "containerd: {user: true}",
            "containerd.user: not supported by the qemu driver: use an image that has it",
        ),
    ],
)
def test_driver_limits_apply_to_that_driver_only(text: str, message: str) -> None:
    text += "\nimages: [{location: /a}]"
    assert problems(text, "qemu") == [in_limas_form(message)]
    assert problems(text, "host") == problems(text, "lima") == []


def test_accepts_a_complete_template() -> None:
    text = f"""
    minimumLimaVersion: 2.0.0
    vmType: qemu
    images:
    - location: https://example.org/a.img
      arch: x86_64
      digest: {DIGEST}
      kernel: {{location: /k, arch: x86_64, cmdline: quiet}}
      initrd: {{location: /i}}
    mounts: [{{location: "~", writable: true}}, {{location: "{{{{.Dir}}}}/x", mountPoint: /x}}]
    ssh: {{localPort: 2222, forwardAgent: true}}
    provision:
    - {{mode: data, path: /etc/x, content: "{{{{.Param.A}}}}", permissions: "0644"}}
    portForwards:
    - {{guestIP: 0.0.0.0, guestPortRange: [1, 65535], hostIP: 0.0.0.0}}
    - {{guestSocket: /var/run/docker.sock, hostSocket: "{{{{.Dir}}}}/docker.sock"}}
    - {{guestPort: 80, hostSocket: web.sock}}
    - {{guestPort: 9, ignore: true}}
    param: {{A: b}}
    user: {{name: jo, uid: 1000}}
    """
    for driver in ("", "qemu", "host", "lima"):
        assert problems(text, driver) == []
