# SPDX-License-Identifier: Apache-2.0
"""The typed model of `lima.yaml`.

One record per mapping of the file, fields in its order, names in snake case. A missing field
has its default: Lima's where that is a constant, the empty value where it depends on the host
(`apply_defaults` fills those in). The serializer leaves out defaults, so
`parse(render(template)) == template`.

The key of a field in the file is derived from its name; keys with acronyms (`guestIP`) are in
`KEYS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

Size = NewType("Size", int)
"""Bytes; a number with an optional unit in the file: `4GiB`."""

PortRange = tuple[int, int]

KEYS = {
    "ca_certs": "caCerts",
    "forward_x11": "forwardX11",
    "forward_x11_trusted": "forwardX11Trusted",
    "fs_args": "fsArgs",
    "fs_type": "fsType",
    "guest_ip": "guestIP",
    "guest_ip_must_be_zero": "guestIPMustBeZero",
    "host_ip": "hostIP",
    "legacy_bios": "legacyBIOS",
    "load_dot_ssh_pub_keys": "loadDotSSHPubKeys",
    "nine_p": "9p",
    "vz_nat": "vzNAT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to fetch: a URL or a path, for one architecture."""

    location: str = ""
    arch: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(File):
    """A kernel for a direct boot."""

    cmdline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(File):
    """A disk image of the guest."""

    kernel: Kernel | None = None
    initrd: File | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareImage(File):
    vm_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalDisk:
    """A disk in `_disks`, independent of the machine's lifetime."""

    name: str = ""
    format: bool = True
    fs_type: str = ""
    fs_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshfs:
    cache: bool = True
    follow_symlinks: bool = False
    sftp_driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NineP:
    security_model: str = "none"
    protocol_version: str = "9p2000.L"
    msize: Size = Size(128 << 10)
    cache: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtiofs:
    queue_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory of this host that the guest mounts."""

    location: str = ""
    mount_point: str = ""
    writable: bool = False
    sshfs: Sshfs = Sshfs()
    nine_p: NineP = NineP()
    virtiofs: Virtiofs = Virtiofs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    address: str = ""
    local_port: int = 0
    load_dot_ssh_pub_keys: bool = False
    forward_agent: bool = False
    forward_x11: bool = False
    forward_x11_trusted: bool = False
    over_vsock: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    legacy_bios: bool = False
    images: tuple[FirmwareImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vnc:
    display: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    display: str = ""
    vnc: Vnc = Vnc()


@dataclass(frozen=True, slots=True, kw_only=True)
class Locator:
    """A text in another file."""

    url: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """A provisioning step, run in the guest at each boot."""

    mode: str = "system"
    skip_default_dependency_resolution: bool | None = None
    script: str = ""
    file: Locator | None = None
    playbook: str = ""
    content: str | None = None
    overwrite: bool = True
    owner: str = ""
    path: str = ""
    permissions: str = ""
    expression: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Containerd:
    """Whether Lima's own containerd is installed in the guest."""

    system: bool | None = None
    user: bool | None = None
    archives: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A script that checks whether the guest is ready."""

    mode: str = "readiness"
    description: str = ""
    script: str = ""
    file: Locator | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortForward:
    """A forwarding rule from guest addresses to host addresses."""

    guest_ip_must_be_zero: bool | None = None
    guest_ip: str = ""
    guest_port: int = 0
    guest_port_range: PortRange | None = None
    guest_socket: str = ""
    host_ip: str = ""
    host_port: int = 0
    host_port_range: PortRange | None = None
    host_socket: str = ""
    proto: str = "any"
    reverse: bool = False
    ignore: bool = False
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyToHost:
    """A guest file that is copied to this host once the guest is ready."""

    guest: str = ""
    host: str = ""
    delete_on_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalNetwork:
    """A network in addition to the user-mode network."""

    lima: str = ""
    socket: str = ""
    vz_nat: bool = False
    mac_address: str = ""
    interface: str = ""
    metric: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResolver:
    """Host names that this host resolves for the guest."""

    enabled: bool = True
    ipv6: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaCertificates:
    """Certificate authorities that the guest trusts."""

    remove_defaults: bool = False
    files: tuple[str, ...] = ()
    certs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rosetta:
    """Rosetta: x86-64 programs on Apple silicon."""

    enabled: bool = False
    binfmt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str = ""
    comment: str = ""
    home: str = ""
    shell: str = ""
    uid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The content of `lima.yaml`."""

    base: Any = None
    minimum_lima_version: str = ""
    vm_type: str = ""
    vm_opts: Mapping[str, Any] = field(default_factory=dict)
    os: str = ""
    arch: str = ""
    images: tuple[Image, ...] = ()
    cpu_type: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 0
    memory: Size = Size(0)
    disk: Size = Size(0)
    additional_disks: tuple[AdditionalDisk, ...] = ()
    mounts: tuple[Mount, ...] = ()
    mount_types_unsupported: tuple[str, ...] = ()
    mount_type: str = ""
    mount_inotify: bool = False
    ssh: Ssh = Ssh()
    firmware: Firmware = Firmware()
    audio: Audio = Audio()
    video: Video = Video()
    provision: tuple[Provision, ...] = ()
    upgrade_packages: bool = False
    containerd: Containerd = Containerd()
    guest_install_prefix: str = ""
    probes: tuple[Probe, ...] = ()
    port_forwards: tuple[PortForward, ...] = ()
    copy_to_host: tuple[CopyToHost, ...] = ()
    message: str = ""
    networks: tuple[AdditionalNetwork, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    param: Mapping[str, str] = field(default_factory=dict)
    dns: tuple[str, ...] = ()
    host_resolver: HostResolver = HostResolver()
    propagate_proxy_env: bool = True
    ca_certs: CaCertificates = CaCertificates()
    rosetta: Rosetta = Rosetta()
    plain: bool = False
    timezone: str = ""
    nested_virtualization: bool = False
    user: User = User()
