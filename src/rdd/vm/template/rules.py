# SPDX-License-Identifier: Apache-2.0
"""Validation rules for templates, beyond syntax and types.

Each rule checks one part and yields problems; all rules run. Driver-specific rules come on
top: `host` accepts every template, a virtual machine needs an image, and the driver `lima`
leaves further checks to limactl.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence

from rdd.vm.template.defaults import ranges
from rdd.vm.template.errors import choices, in_limas_form, shown
from rdd.vm.template.forward_rules import check_port, forward_problems
from rdd.vm.template.model import File, Image, Provision, Template
from rdd.vm.template.param_rules import param_problems
from rdd.vm.template.text_rules import text_problems

Problems = Iterator[str]

VM_TYPES = ("qemu", "vz", "host")
OSES = ("Linux", "Darwin", "FreeBSD")
ARCHES = ("x86_64", "aarch64", "armv7l", "ppc64le", "riscv64", "s390x")
MOUNT_TYPES = ("reverse-sshfs", "9p", "virtiofs")
PROVISION_MODES = ("system", "user", "boot", "data", "dependency", "ansible", "yq")
SUPPORTED_LIMA = (2, 1)  # the newest version whose templates are supported

_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}
_SYSTEM_PATHS = frozenset(
    ("/", "/bin", "/dev", "/etc", "/home", "/opt", "/sbin", "/tmp", "/usr", "/var")
)
_is_user = re.compile(r"[a-z_][a-z0-9_-]{0,31}").fullmatch
_is_env = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_is_mac = re.compile(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}").fullmatch
_is_mode = re.compile(r"0?[0-7]{3,4}").fullmatch
_version = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:[-+].*)?").fullmatch


def problems_of(template: Template, *, driver: str = "", has_image: bool = False) -> list[str]:
    """Return all problems, for any driver or for the given one.

    `has_image`: the image does not come from the template.
    """
    found = [problem for rule in _RULES for problem in rule(template)]
    if driver not in ("", "host") and not has_image:
        found += _image_needed(template)
    if driver == "qemu":
        found += _qemu(template)
    return [in_limas_form(problem) for problem in found]


def _one_of(path: str, value: str, allowed: Sequence[str]) -> Problems:
    if value and value not in allowed:
        yield f"{path}: {shown(value)} must be {choices(allowed)}"


def _general(template: Template) -> Problems:
    if template.base:
        yield "base: must be empty: include the content of the other template"
    yield from _minimum_version(template.minimum_lima_version)
    yield from _one_of("vmType", template.vm_type, VM_TYPES)
    yield from _one_of("os", template.os, OSES)
    yield from _one_of("arch", template.arch, ARCHES)
    for arch in template.cpu_type:
        yield from _one_of(f"cpuType.{arch}", arch, ARCHES)
    if template.cpus < 0:
        yield f"cpus: {template.cpus} must be at least 1"
    yield from _one_of("mountType", template.mount_type, MOUNT_TYPES)
    for name in template.env:
        if not _is_env(name):
            yield f"env: {shown(name)} is not the name of an environment variable"
    prefix = template.guest_install_prefix
    if prefix and not prefix.startswith("/"):
        yield f"guestInstallPrefix: {shown(prefix)} must be an absolute path"


def _minimum_version(text: str) -> Problems:
    if not text:
        return
    match = _version(text)
    if match is None:
        yield f'minimumLimaVersion: {shown(text)} must be a version such as "2.0.0"'
    elif (int(match[1]), int(match[2])) > SUPPORTED_LIMA:
        newest = ".".join(map(str, SUPPORTED_LIMA))
        yield f"minimumLimaVersion: {shown(text)} is newer than {newest}, the newest supported"


def _images(template: Template) -> Problems:
    for number, image in enumerate(template.images):
        path = f"images[{number}]"
        yield from _file(path, image)
        yield from _boot_files(path, image)
    for number, firmware in enumerate(template.firmware.images):
        yield from _file(f"firmware.images[{number}]", firmware)
    for number, archive in enumerate(template.containerd.archives):
        yield from _file(f"containerd.archives[{number}]", archive)


def _boot_files(path: str, image: Image) -> Problems:
    for name, file in (("kernel", image.kernel), ("initrd", image.initrd)):
        if file is None:
            continue
        yield from _file(f"{path}.{name}", file)
        if file.arch and file.arch != image.arch:
            yield (
                f"{path}.{name}.arch: {shown(file.arch)} must be that of the image, "
                f"{shown(image.arch)}"
            )
    if image.initrd and not image.kernel:
        yield f"{path}.initrd: needs {path}.kernel"


def _file(path: str, file: File) -> Problems:
    if not file.location:
        yield f"{path}.location: must be set to a URL or a path"
    elif "://" not in file.location and not file.location.startswith(("/", "~/", "{{")):
        yield f"{path}.location: {shown(file.location)} must be a URL or an absolute path"
    yield from _one_of(f"{path}.arch", file.arch, ARCHES)
    if file.digest:
        algorithm, _, digits = file.digest.partition(":")
        length = _DIGESTS.get(algorithm)
        if length is None:
            yield (
                f"{path}.digest: {shown(file.digest)} must begin with "
                f"{choices([name + ':' for name in _DIGESTS])}"
            )
        elif not re.fullmatch(f"[0-9a-f]{{{length}}}", digits):
            yield (
                f"{path}.digest: {shown(file.digest)} must have {length} hexadecimal digits "
                f"(0-9, a-f) after the colon"
            )


def _image_needed(template: Template) -> Problems:
    if not template.images:
        yield 'images: at least one image is required (only vmType "host" needs none)'
        return
    arches = {image.arch for image in template.images}
    if template.arch and not arches & {template.arch, ""}:
        given = ", ".join(map(shown, sorted(arches)))
        yield f"images: none is for arch {shown(template.arch)}, only for {given}"


def _disks(template: Template) -> Problems:
    seen: dict[str, int] = {}
    for number, disk in enumerate(template.additional_disks):
        path = f"additionalDisks[{number}].name"
        if not disk.name:
            yield f"{path}: must be set"
        elif not re.fullmatch(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*", disk.name):
            yield (
                f"{path}: {shown(disk.name)} must be letters and digits, separated by single "
                f'".", "_" or "-"'
            )
        elif disk.name in seen:
            yield f"{path}: {shown(disk.name)} is already additionalDisks[{seen[disk.name]}]"
        seen.setdefault(disk.name, number)


def _mounts(template: Template) -> Problems:
    for number, mount in enumerate(template.mounts):
        path = f"mounts[{number}].location"
        if not mount.location:
            yield f"{path}: must be set"
        elif not mount.location.startswith(("/", "~", "{{")):
            yield f'{path}: {shown(mount.location)} must be an absolute path or begin with "~"'
        elif mount.location.startswith("~") and mount.location[1:2] not in ("", "/"):
            yield f'{path}: {shown(mount.location)} must begin with "~/": no home of another user'
        yield from _mount_point(f"mounts[{number}]", mount.location, mount.mount_point, template)
        yield from _one_of(
            f"mounts[{number}].sshfs.sftpDriver",
            mount.sshfs.sftp_driver,
            ("builtin", "openssh-sftp-server"),
        )


def _mount_point(path: str, location: str, point: str, template: Template) -> Problems:
    if point:
        path += ".mountPoint"
        if not point.startswith(("/", "{{")):
            yield f"{path}: {shown(point)} must be an absolute path"
            return
    else:
        path += ".location"
    target = (point or location).rstrip("/") or "/"
    if target in _SYSTEM_PATHS:
        yield f"{path}: {shown(target)} is a system path in the guest"
    elif template.user.home and target == template.user.home.rstrip("/"):
        yield f"{path}: {shown(target)} is the home directory in the guest"


def _provision(template: Template) -> Problems:
    for number, item in enumerate(template.provision):
        path = f"provision[{number}]"
        yield from _one_of(f"{path}.mode", item.mode, PROVISION_MODES)
        if item.file is not None:
            yield f"{path}.file: must be empty: put the text under {path}.script"
        if item.skip_default_dependency_resolution is not None and item.mode != "dependency":
            yield f'{path}.skipDefaultDependencyResolution: only with mode "dependency"'
        yield from _provision_file(path, item)


def _provision_file(path: str, item: Provision) -> Problems:
    writes_file = item.mode in ("data", "yq")
    for key, value in (("path", item.path), ("owner", item.owner), ("format", item.format)):
        if value and not writes_file:
            yield f'{path}.{key}: only with mode "data" or "yq"'
    if item.mode == "data" and item.content is None:
        yield f'{path}.content: must be set with mode "data"'
    if item.content is not None and item.mode != "data":
        yield f'{path}.content: only with mode "data"'
    if item.mode == "yq" and not item.expression:
        yield f'{path}.expression: must be set with mode "yq"'
    if not writes_file:
        return
    if item.script:
        yield f"{path}.script: must be empty with mode {shown(item.mode)}"
    if not item.path.startswith(("/", "{{")):
        yield f"{path}.path: {shown(item.path)} must be an absolute path"
    if item.permissions and "{{" not in item.permissions and not _is_mode(item.permissions):
        yield f'{path}.permissions: {shown(item.permissions)} must be octal, such as "644"'


def _probes(template: Template) -> Problems:
    for number, probe in enumerate(template.probes):
        path = f"probes[{number}]"
        yield from _one_of(f"{path}.mode", probe.mode, ("readiness",))
        if probe.file is not None:
            yield f"{path}.file: must be empty: put the text under {path}.script"
        elif not probe.script.startswith("#!"):
            first = probe.script.partition("\n")[0]
            yield f'{path}.script: must begin with "#!", not {shown(first)}'


def _ssh(template: Template) -> Problems:
    if template.ssh.local_port:
        yield from check_port("ssh.localPort", template.ssh.local_port)


def _copies(template: Template) -> Problems:
    for number, item in enumerate(template.copy_to_host):
        for key, value in (("guest", item.guest), ("host", item.host)):
            if not value.startswith(("/", "{{") if key == "guest" else ("/", "{{", "~/")):
                yield f"copyToHost[{number}].{key}: {shown(value)} must be an absolute path"


def _names(template: Template) -> Problems:
    if template.host_resolver.enabled and template.dns:
        yield "dns: must be empty unless hostResolver.enabled is false"
    for number, address in enumerate(template.dns):
        if not is_address(address):
            yield f"dns[{number}]: {shown(address)} must be an IP address"
    for name, target in template.host_resolver.hosts.items():
        if not name or not target:
            yield f"hostResolver.hosts: {shown(name)}: {shown(target)} must be a name and a target"


def _networks(template: Template) -> Problems:
    seen: dict[str, int] = {}
    for number, network in enumerate(template.networks):
        path = f"networks[{number}]"
        given = [
            key
            for key, value in (
                ("lima", network.lima),
                ("socket", network.socket),
                ("vzNAT", network.vz_nat),
            )
            if value
        ]
        if len(given) != 1:
            yield f"{path}: exactly one of lima, socket and vzNAT must be set"
        if network.mac_address and not _is_mac(network.mac_address):
            yield f"{path}.macAddress: {shown(network.mac_address)} must be six bytes, 52:55:…"
        name = network.interface or f"lima{number}"
        if len(name) > 15 or re.search(r"[\s/]", name):
            yield (
                f"{path}.interface: {shown(name)} must have at most 15 characters, no blanks "
                f"and no slashes"
            )
        elif name in seen:
            yield f"{path}.interface: {shown(name)} is already that of networks[{seen[name]}]"
        elif name == "eth0":
            yield f'{path}.interface: "eth0" is the user-mode network'
        seen.setdefault(name, number)


def _user(template: Template) -> Problems:
    user = template.user
    if user.name and not _is_user(user.name):
        yield (
            f"user.name: {shown(user.name)} must be lower-case letters, digits, "
            f'"_" and "-", at most 32'
        )
    elif user.name == "root":
        yield 'user.name: "root" exists in every guest: choose another name'
    for key, value in (("home", user.home), ("shell", user.shell)):
        if value and not value.startswith("/"):
            yield f"user.{key}: {shown(value)} must be an absolute path"
    if user.uid is not None and not 0 < user.uid < 1 << 32:
        yield f"user.uid: {user.uid} must be between 1 and 4294967295"


def _certificates(template: Template) -> Problems:
    for number, text in enumerate(template.ca_certs.certs):
        if "-----BEGIN CERTIFICATE-----" not in text:
            yield f"caCerts.certs[{number}]: must be a certificate in PEM form"
    for number, path in enumerate(template.ca_certs.files):
        if not path.startswith(("/", "~/", "{{")):
            yield f"caCerts.files[{number}]: {shown(path)} must be an absolute path"


def _forwards(template: Template) -> Problems:
    for number, rule in enumerate(template.port_forwards):
        guest, host = ranges(rule)
        yield from forward_problems(f"portForwards[{number}]", rule, guest, host)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_RULES: tuple[Callable[[Template], Problems], ...] = (
    _general,
    _images,
    _disks,
    _mounts,
    _ssh,
    _provision,
    _probes,
    _forwards,
    _copies,
    _networks,
    _names,
    _user,
    _certificates,
    param_problems,
    text_problems,
)


def _qemu(template: Template) -> Problems:
    if template.os not in ("", "Linux"):
        yield f'os: {shown(template.os)} must be "Linux" with the qemu driver'
    for number, item in enumerate(template.provision):
        if item.mode in ("ansible", "yq"):
            yield (
                f"provision[{number}].mode: {shown(item.mode)} is not supported by the qemu "
                f'driver, use "system", "user", "boot", "dependency" or "data"'
            )
    if template.networks:
        yield "networks: not supported by the qemu driver: guests have the user-mode network"
    if template.additional_disks:
        yield "additionalDisks: not supported by the qemu driver: make the disk larger"
    if template.rosetta.enabled:
        yield 'rosetta.enabled: only with vmType "vz"'
    for key, value in (
        ("system", template.containerd.system),
        ("user", template.containerd.user),
    ):
        if value:
            yield f"containerd.{key}: not supported by the qemu driver: use an image that has it"
