# SPDX-License-Identifier: Apache-2.0
"""Defaulting: completes a template for one instance on this host.

`apply_defaults` fills in values that depend on the host; `resolve` also expands variables,
makes paths absolute and completes the forwarding rules, so that drivers have nothing left to
decide. Both are pure functions: `HostFacts` describe the host.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from rdd.vm.template.model import (
    AdditionalNetwork,
    CopyToHost,
    Image,
    Mount,
    PortForward,
    Probe,
    Provision,
    Size,
    Template,
    User,
)
from rdd.vm.template.variables import Variables, expand

GIB = 1 << 30
DEFAULT_DISK = Size(100 * GIB)
SOCKET_DIR = "sock"  # base of a relative hostSocket, in the instance directory
ANY_PORT = (1, 65535)

_ARCHES = {"amd64": "x86_64", "arm64": "aarch64"}
_LINUX_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The properties of this host and its user that defaults depend on."""

    arch: str
    cpus: int
    memory_bytes: int
    user: str
    uid: int
    home: Path

    @classmethod
    def gather(cls, home: Path) -> "HostFacts":
        """Return the facts of this host."""
        import pwd

        uid = os.getuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:  # e.g. in a container with an arbitrary uid
            user = str(uid)
        machine = os.uname().machine
        return cls(
            arch=_ARCHES.get(machine, machine),
            cpus=os.cpu_count() or 1,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            user=user,
            uid=uid,
            home=home,
        )


def apply_defaults(template: Template, facts: HostFacts, *, driver: str = "") -> Template:
    """Return the template with defaults for all missing values."""
    arch = template.arch or facts.arch
    plain, has_guest = template.plain, driver != "host"
    return replace(
        template,
        os=template.os or "Linux",
        arch=arch,
        images=tuple(_image(image, arch) for image in template.images),
        # Without a guest they are limits, and only a template that has some wants any.
        cpus=template.cpus or (min(4, facts.cpus) if has_guest else 0),
        memory=template.memory or Size(min(4 * GIB, facts.memory_bytes // 2) if has_guest else 0),
        disk=template.disk or DEFAULT_DISK,
        mounts=() if plain else template.mounts,
        port_forwards=tuple(
            _forward(rule) for rule in template.port_forwards if rule.static or not plain
        ),
        networks=tuple(
            _network(network, number) for number, network in enumerate(template.networks)
        ),
        user=_user(template.user, facts, driver),
    )


def _image(image: Image, arch: str) -> Image:
    kernel, initrd = image.kernel, image.initrd
    arch = image.arch or arch
    return replace(
        image,
        arch=arch,
        kernel=kernel and replace(kernel, arch=kernel.arch or arch),
        initrd=initrd and replace(initrd, arch=initrd.arch or arch),
    )


def _network(network: AdditionalNetwork, number: int) -> AdditionalNetwork:
    return replace(network, interface=network.interface or f"lima{number}")


def _user(user: User, facts: HostFacts, driver: str) -> User:
    """Return the guest's user: named like the user of this host; without a guest, that user."""
    if driver == "host":
        return User(name=facts.user, home=str(facts.home), shell=user.shell, uid=facts.uid)
    name = user.name
    if not name:
        # A guest has a root of its own, and not every host name is valid in a guest.
        usable = _LINUX_USER.fullmatch(facts.user) and facts.user != "root"
        name = facts.user if usable else "lima"
    return replace(
        user,
        name=name,
        home=user.home or "/home/{{.User}}.guest",
        shell=user.shell or "/bin/bash",
        uid=user.uid or facts.uid or 1000,
    )


def _forward(rule: PortForward) -> PortForward:
    guest_ip = rule.guest_ip or ("0.0.0.0" if rule.guest_ip_must_be_zero else "127.0.0.1")
    must_be_zero = rule.guest_ip_must_be_zero
    if must_be_zero is None:
        must_be_zero = rule.guest_ip == "0.0.0.0"
    guest, host = ranges(rule)
    return replace(
        rule,
        guest_ip=guest_ip,
        guest_ip_must_be_zero=must_be_zero,
        host_ip=rule.host_ip or "127.0.0.1",
        guest_port_range=None if rule.guest_socket else guest,
        host_port_range=None if rule.host_socket else host,
    )


def ranges(rule: PortForward) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the guest ports and the host ports of a rule."""
    guest = rule.guest_port_range or (rule.guest_port, rule.guest_port)
    host = rule.host_port_range or (rule.host_port, rule.host_port)
    if guest == (0, 0):
        guest = host if rule.host_socket == "" and host != (0, 0) else ANY_PORT
    return guest, guest if host == (0, 0) else host


def resolve(
    template: Template, facts: HostFacts, *, name: str, directory: Path, driver: str = ""
) -> Template:
    """Return the complete template of one instance: variables expanded, paths absolute."""
    template = apply_defaults(template, facts, driver=driver)
    host = Variables(
        name=name,
        dir=str(directory),
        home=str(facts.home),
        user=facts.user,
        uid=facts.uid,
        param=dict(template.param),
    )
    user = template.user
    guest = replace(host, user=user.name, uid=user.uid or 0)
    user = replace(user, home=expand(user.home, guest))
    guest = replace(guest, home=user.home)
    return replace(
        template,
        user=user,
        mounts=tuple(_mount(mount, host, guest) for mount in template.mounts),
        provision=tuple(_provision(item, guest) for item in template.provision),
        probes=tuple(_probe(probe, guest) for probe in template.probes),
        port_forwards=tuple(_sockets(rule, host, guest) for rule in template.port_forwards),
        copy_to_host=tuple(_copy(item, host, guest) for item in template.copy_to_host),
    )


def host_path(text: str, variables: Variables) -> str:
    """Return a path on this host, with variables and `~` expanded."""
    text = expand(text, variables)
    if text == "~" or text.startswith("~/"):
        text = variables.home + text[1:]
    return text


def _mount(mount: Mount, host: Variables, guest: Variables) -> Mount:
    location = host_path(mount.location, host)
    point = expand(mount.mount_point, guest) or location
    return replace(mount, location=os.path.normpath(location), mount_point=os.path.normpath(point))


def _provision(item: Provision, guest: Variables) -> Provision:
    return replace(
        item,
        script=expand(item.script, guest),
        content=None if item.content is None else expand(item.content, guest),
        owner=expand(item.owner, guest),
        path=expand(item.path, guest),
        permissions=expand(item.permissions, guest),
        expression=expand(item.expression, guest),
    )


def _probe(probe: Probe, guest: Variables) -> Probe:
    return replace(
        probe,
        script=expand(probe.script, guest),
        description=expand(probe.description, guest),
        hint=expand(probe.hint, guest),
    )


def _sockets(rule: PortForward, host: Variables, guest: Variables) -> PortForward:
    on_host = host_path(rule.host_socket, host)
    if on_host and not on_host.startswith("/"):
        on_host = f"{host.dir}/{SOCKET_DIR}/{on_host}"
    return replace(rule, guest_socket=expand(rule.guest_socket, guest), host_socket=on_host)


def _copy(item: CopyToHost, host: Variables, guest: Variables) -> CopyToHost:
    return replace(item, guest=expand(item.guest, guest), host=host_path(item.host, host))
