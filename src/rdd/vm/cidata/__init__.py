# SPDX-License-Identifier: Apache-2.0
"""The cidata disk: the configuration of a guest, which it reads at boot.

It is a NoCloud data source of cloud-init (label `cidata`, files `meta-data`, `user-data`,
`network-config`), so cloud images support it; further files have Lima's names where Lima has
them. `user-data` only creates the user and makes cloud-init run `boot.sh` twice at each boot:
before the ssh server starts for the environment, at the end for everything else (mounts,
provision scripts, marker files). rdd's own guest runs that script, too, without cloud-init.
docs/internals.md lists the files.

The id in `meta-data` changes at each boot: cloud-init then repeats its work, and a marker file
of an earlier boot is recognised as stale.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.vm.cidata import iso9660
from rdd.vm.template.model import Template
from rdd.vm.template.text_rules import environment_text
from rdd.vm.template.variables import hostname

LABEL = "cidata"
GUEST_IP = "192.168.5.15"
GATEWAY_IP = "192.168.5.2"  # this host, in the guest's network
DNS_IP = "192.168.5.3"  # forwards queries to the host's resolver
NETWORK = "192.168.5.0/24"
MOUNT_POINT = "/mnt/lima-cidata"
BOOT_DONE = "/run/lima-boot-done"
SSH_READY = "/run/lima-ssh-ready"
FAILURES = "/run/lima-boot-failures"
LOG = "/var/log/lima-init.log"

_PROXY_NAMES = ("ftp_proxy", "http_proxy", "https_proxy", "no_proxy")
_LOOPBACK = re.compile(
    r"(?<=//)(localhost|127\.\d+\.\d+\.\d+|\[::1\])|(?<=@)(localhost|127\.\d+\.\d+\.\d+)"
)
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*")
_SCRIPT_DIRECTORIES = {
    "boot": "boot",
    "dependency": "provision.dependency",
    "system": "provision.system",
    "user": "provision.user",
}

_MOUNT = f"""set -eu
mkdir -p {MOUNT_POINT}
if [ ! -e {MOUNT_POINT}/meta-data ]; then
    mount -t iso9660 -o ro,mode=0700,dmode=0700,overriderockperm,uid=0,gid=0 \\
        /dev/disk/by-label/{LABEL} {MOUNT_POINT}
fi
"""
_BEFORE_SSH = f"{_MOUNT}exec sh {MOUNT_POINT}/boot.sh environment >>{LOG} 2>&1\n"
_PER_BOOT = f"#!/bin/sh\n{_MOUNT}exec sh {MOUNT_POINT}/boot.sh >>{LOG} 2>&1\n"


@dataclass(frozen=True, slots=True)
class Share:
    """A directory of this host that the guest mounts at boot."""

    kind: str
    """`virtiofs` or `9p`."""
    tag: str
    mount_point: str
    options: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """The inputs of the disk besides the template."""

    name: str
    instance_id: str
    keys: Sequence[str]
    """Public keys that may log in."""
    mac: str
    shares: Sequence[Share] = ()
    environment: Mapping[str, str] | None = None
    """The environment of the user, for its proxy variables."""


def disk(template: Template, guest: Guest) -> bytes:
    """Return the disk image. Raises OSError if a file of the template is missing."""
    return iso9660.image(files(template, guest), label=LABEL)


def meta_data(guest: Guest) -> str:
    """Return the content of this boot's marker files."""
    return f"instance-id: {guest.instance_id}\nlocal-hostname: {hostname(guest.name)}\n"


def files(template: Template, guest: Guest) -> dict[str, bytes]:
    """Return the files of the disk by name."""
    found = {
        "meta-data": meta_data(guest),
        "user-data": "#cloud-config\n" + json.dumps(_user_data(template, guest), indent=1) + "\n",
        "network-config": json.dumps(_network(template, guest)) + "\n",
        "lima.env": _assignments(_facts(template, guest)),
        "param.env": _assignments({f"PARAM_{key}": text for key, text in template.param.items()}),
        "etc_environment": _environment(template, guest),
        "hosts": _hosts(template, guest),
        "ssh_authorized_keys": "".join(key + "\n" for key in guest.keys),
        "mounts": "".join(
            f"{share.kind}\t{share.tag}\t{share.options}\t{share.mount_point}\n"
            for share in guest.shares
        ),
        "ca-certs.pem": _certificates(template),
        "boot.sh": Path(__file__).with_name("boot.sh").read_text(),
        **_provision(template),
    }
    return {name: text.encode() for name, text in found.items()}


def _assignments(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def _facts(template: Template, guest: Guest) -> dict[str, str]:
    user = template.user
    values = {
        "NAME": guest.name,
        "HOSTNAME": hostname(guest.name),
        "USER": user.name,
        "UID": str(user.uid or 1000),
        "COMMENT": user.comment,
        "HOME": user.home,
        "SHELL": user.shell,
        "SLIRP_IP_ADDRESS": GUEST_IP,
        "SLIRP_GATEWAY": GATEWAY_IP,
        "DNS": " ".join(_name_servers(template)),
        "TIMEZONE": template.timezone,
        "PLAIN": "1" if template.plain else "",
        "CA_REMOVE_DEFAULTS": "true" if template.ca_certs.remove_defaults else "false",
    }
    return {f"LIMA_CIDATA_{key}": value for key, value in values.items()}


def _name_servers(template: Template) -> tuple[str, ...]:
    return (DNS_IP,) if template.host_resolver.enabled or not template.dns else template.dns


def _user_data(template: Template, guest: Guest) -> dict[str, object]:
    user = template.user
    data: dict[str, object] = {
        "growpart": {"mode": "auto", "devices": ["/"]},
        "resize_rootfs": True,
        "package_upgrade": template.upgrade_packages,
        "ssh_deletekeys": False,
        "users": [
            {
                "name": user.name,
                "uid": user.uid or 1000,
                "gecos": user.comment,
                "homedir": user.home,
                "shell": user.shell,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "lock_passwd": True,
                "ssh_authorized_keys": list(guest.keys),
            }
        ],
        # cloud-init runs this before it starts the ssh server, and the scripts long afterwards.
        "bootcmd": [["sh", "-c", _BEFORE_SSH]],
        "write_files": [
            {
                "path": "/var/lib/cloud/scripts/per-boot/00-lima.boot.sh",
                "owner": "root:root",
                "permissions": "0755",
                "content": _PER_BOOT,
            }
        ],
    }
    if template.timezone:
        data["timezone"] = template.timezone
    return data


def _network(template: Template, guest: Guest) -> dict[str, object]:
    interface: dict[str, object] = {
        "match": {"macaddress": guest.mac},
        "dhcp4": True,
        "set-name": "eth0",
        "dhcp-identifier": "mac",
    }
    if _name_servers(template) != (DNS_IP,):
        interface["nameservers"] = {"addresses": list(template.dns)}
        interface["dhcp4-overrides"] = {"use-dns": False}
    return {"version": 2, "ethernets": {"eth0": interface}}


def _environment(template: Template, guest: Guest) -> str:
    values = dict(template.env)
    if template.propagate_proxy_env:
        for name in _PROXY_NAMES:
            for spelled in (name, name.upper()):
                value = (guest.environment or {}).get(spelled, "")
                if value and spelled not in values:
                    # A proxy on the host's loopback has another address in the guest.
                    values[spelled] = _LOOPBACK.sub(GATEWAY_IP, value)
    # Those of a template have been checked; those of this host may not fit in a line.
    lines = ((key, environment_text(value)) for key, value in values.items())
    return "".join(f"{key}={text}\n" for key, text in lines if text is not None)


def _hosts(template: Template, guest: Guest) -> str:
    addresses = {"host.lima.internal": GATEWAY_IP, hostname(guest.name): GUEST_IP}
    wanted = dict(template.host_resolver.hosts) if template.host_resolver.enabled else {}
    for name in wanted:
        target, steps = wanted[name], 0
        while target in wanted and steps < len(wanted):  # names may be aliases
            target, steps = wanted[target], steps + 1
        target = addresses.get(target, target)
        if _ADDRESS.fullmatch(target):
            addresses[name] = target
    return "".join(f"{address} {name}\n" for name, address in addresses.items())


def _certificates(template: Template) -> str:
    texts = [Path(name).expanduser().read_text() for name in template.ca_certs.files]
    return "".join(text.rstrip("\n") + "\n" for text in (*texts, *template.ca_certs.certs))


def _provision(template: Template) -> dict[str, str]:
    found = {}
    for number, item in enumerate(template.provision):
        name = f"{number:08d}"
        if item.mode == "data":
            found[f"provision.data/{name}"] = item.content or ""
            found[f"provision.data/{name}.env"] = _assignments(
                {
                    "DATA_PATH": item.path,
                    "DATA_OWNER": item.owner or "root:root",
                    "DATA_PERMISSIONS": item.permissions or "644",
                    "DATA_OVERWRITE": "true" if item.overwrite else "false",
                }
            )
        elif item.mode in _SCRIPT_DIRECTORIES:
            text = item.script
            if item.file is not None and not text:
                text = Path(item.file.url.removeprefix("file://")).expanduser().read_text()
            if not text.startswith("#!"):
                text = "#!/bin/sh\n" + text
            found[f"{_SCRIPT_DIRECTORIES[item.mode]}/{name}"] = text
    return found
