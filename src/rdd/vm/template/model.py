# SPDX-License-Identifier: Apache-2.0
"""The typed model of `lima.yaml`.

One record per mapping of the file, fields in its order, names in snake case. A field that
is not given has its default: that of Lima where it is the same everywhere, the empty value
where the machine decides (`apply_defaults` fills those). Writing a template leaves out what has
its default, so `parse(render(template)) == template`.

How a field is called in the file is derived from its name; names that are written with
capitals (`guestIP`) are in `KEYS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

Size = NewType("Size", int)
"""Bytes, written as a number with an optional unit: `4GiB`."""

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
    """A kernel that is booted directly."""

    cmdline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(File):
    """A disk image of the guest."""

    kernel: Kernel | None = None
    initrd: File | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareImage(File):
    """A UEFI image."""

    vm_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalDisk:
    """A disk of its own, in `_disks`, that outlives the machine."""

    name: str = ""
    format: bool = True
    fs_type: str = ""
    fs_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sshfs:
    """Options of a mount over sshfs."""

    cache: bool = True
    follow_symlinks: bool = False
    sftp_driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NineP:
    """Options of a mount over 9p."""

    security_model: str = "none"
    protocol_version: str = "9p2000.L"
    msize: Size = Size(128 << 10)
    cache: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtiofs:
    """Options of a mount over virtiofs."""

    queue_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory of this machine that the guest sees."""

    location: str = ""
    mount_point: str = ""
    writable: bool = False
    sshfs: Sshfs = Sshfs()
    nine_p: NineP = NineP()
    virtiofs: Virtiofs = Virtiofs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """How the guest is reached."""

    address: str = ""
    local_port: int = 0
    load_dot_ssh_pub_keys: bool = False
    forward_agent: bool = False
    forward_x11: bool = False
    forward_x11_trusted: bool = False
    over_vsock: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """What boots the guest."""

    legacy_bios: bool = False
    images: tuple[FirmwareImage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Sound."""

    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vnc:
    """The screen over VNC."""

    display: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """The screen."""

    display: str = ""
    vnc: Vnc = Vnc()


@dataclass(frozen=True, slots=True, kw_only=True)
class Locator:
    """A text kept elsewhere."""

    url: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """Something done in the guest at each boot."""

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
    """A script that tells whether the guest is ready."""

    mode: str = "readiness"
    description: str = ""
    script: str = ""
    file: Locator | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortForward:
    """A rule about what listens in the guest and where it appears on this machine."""

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
    """A file of the guest that is copied to this machine once it is ready."""

    guest: str = ""
    host: str = ""
    delete_on_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalNetwork:
    """A network beside the user-mode one."""

    lima: str = ""
    socket: str = ""
    vz_nat: bool = False
    mac_address: str = ""
    interface: str = ""
    metric: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResolver:
    """Names that this machine resolves for the guest."""

    enabled: bool = True
    ipv6: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaCertificates:
    """Authorities the guest trusts."""

    remove_defaults: bool = False
    files: tuple[str, ...] = ()
    certs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rosetta:
    """x86-64 programs on Apple's processors."""

    enabled: bool = False
    binfmt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The user in the guest."""

    name: str = ""
    comment: str = ""
    home: str = ""
    shell: str = ""
    uid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What `lima.yaml` says about a machine."""

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
