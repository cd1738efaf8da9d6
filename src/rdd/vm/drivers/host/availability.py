# SPDX-License-Identifier: Apache-2.0
"""Whether this host can run a container engine without a virtual machine.

Each reason comes with the command that fixes it. The check starts nothing, so it has no side
effects and takes a millisecond.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import FailureReason
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.paths import NAME
from rdd.vm.drivers.host.services import ENGINES
from rdd.vm.drivers.protocol import Availability, as_root

DEFAULT_ENGINE = "moby"

# Program, its purpose, and its Debian package.
_ENGINE_PROGRAMS = {
    "moby": (
        ("dockerd", "the container engine", "docker.io"),
        ("containerd", "the runtime below the container engine", "containerd"),
        ("runc", "the runtime below the container engine", "runc"),
    ),
    "containerd": (
        ("containerd", "the container engine", "containerd"),
        ("runc", "the runtime below the container engine", "runc"),
    ),
}
_ROOT_PROGRAMS = (
    ("ip", "network namespaces", "iproute2"),
    ("iptables", "the network of containers", "iptables"),
    ("iptables-restore", "the network of containers", "iptables"),
    ("iptables-save", "the network of containers", "iptables"),
)
_ROOTLESS_PROGRAMS = (
    ("rootlesskit", "an engine without root", "rootlesskit"),
    ("newuidmap", "an engine without root", "uidmap"),
    ("newgidmap", "an engine without root", "uidmap"),
    ("ip", "network namespaces", "iproute2"),
    ("iptables", "the network of containers", "iptables"),
)
_ROOTLESS_NETWORKS = ("slirp4netns", "pasta")
TUN = Path("/dev/net/tun")


def engine_availability(
    engine: str, environment: Mapping[str, str], *, is_root: bool | None = None, tun: Path = TUN
) -> Availability:
    """Return whether an engine works on this host; an empty name means no engine."""
    if sys.platform != "linux":
        return _refusal("works on Linux only", "choose a virtual machine: vmType qemu or vz")
    if not engine:
        return Availability(NAME, usable=True)
    if engine not in ENGINES:
        known = ", ".join(ENGINES)
        return _refusal(
            f'does not support the container engine "{engine}"', f"set CONTAINER_ENGINE to {known}"
        )
    if is_root is None:
        is_root = os.geteuid() == 0
    wanted = (*_ENGINE_PROGRAMS[engine], *(_ROOT_PROGRAMS if is_root else _ROOTLESS_PROGRAMS))
    missing = [item for item in wanted if find(item[0], environment) is None]
    network = "" if is_root else rootless_network(environment)
    if not is_root and not network:
        missing.append(("slirp4netns", "the network of an engine without root", "slirp4netns"))
    if missing:
        program, purpose, _ = missing[0]
        packages = " ".join(dict.fromkeys(package for _, _, package in missing))
        install = f"apt-get install -y --no-install-recommends {packages}"
        return _refusal(
            f"{program} is not installed ({purpose})", install, command=as_root(install)
        )
    if network == "slirp4netns" and not os.access(tun, os.R_OK | os.W_OK):
        return _refusal(
            f"{tun} is not open to this user, which an engine without root needs",
            f"chmod 0666 {tun} as root, or run as root",
            command=as_root(f"chmod 0666 {tun}"),
            failure=FailureReason.DEVICE_CLOSED,
        )
    return Availability(NAME, usable=True)


def rootless_network(environment: Mapping[str, str]) -> str:
    """Return the installed network helper for a rootless engine; empty if there is none."""
    return next((name for name in _ROOTLESS_NETWORKS if find(name, environment)), "")


def _refusal(
    reason: str,
    fix: str,
    *,
    command: str = "",
    failure: FailureReason = FailureReason.NOT_INSTALLED,
) -> Availability:
    return Availability(
        NAME, usable=False, reason=reason, fix=fix, command=command, failure=failure
    )
