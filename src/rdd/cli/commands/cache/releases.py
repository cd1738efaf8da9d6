# SPDX-License-Identifier: Apache-2.0
"""Releases of Kubernetes in the cache: directories beside its files, used by machines.

A release is in use if the template of a machine of any instance of the user names it, whether
the machine runs or not: its next start needs the files.
"""

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from rdd.base.sizes import binary
from rdd.cli.framework.types import Call
from rdd.daemon.service.instances import existing
from rdd.host.errors import HostError

if TYPE_CHECKING:
    from rdd.vm.drivers.kubernetes_files import Release

PREFIX = "k3s/"


def releases_of(call: Call) -> "list[Release]":
    """Return the releases of the user who runs a command, with the machines that use them."""
    from rdd.vm.drivers.kubernetes_files import releases

    found = releases({"HOME": str(call.instance.home), **call.environment.variables})
    users = _users(call) if found else {}
    return [replace(one, users=tuple(users.get(one.name, ()))) for one in found]


def title(release: "Release") -> str:
    """Return the name of a release, as arguments have it."""
    return f"{PREFIX}{release.name}"


def describe(release: "Release") -> str:
    """Return a release in one line."""
    return f"{title(release)} ({binary(release.size_bytes)})"


def _users(call: Call) -> dict[str, list[str]]:
    from rdd.vm.instance_dir import LimaHome

    found: dict[str, list[str]] = defaultdict(list)
    for instance in existing(call.instance.home, call.instance.system):
        machines = LimaHome(instance.lima_home)
        for name in machines.names():
            try:
                release = machines.directory(name).template().param.get("KUBERNETES_RELEASE", "")
            except HostError:
                continue  # damaged: it cannot start
            found[release].append(f"{instance.suffix}/{name}")
    return found
