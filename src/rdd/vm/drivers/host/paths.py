# SPDX-License-Identifier: Apache-2.0
"""Every file and name of a machine of this driver.

On disk everything is in the instance directory. What exists elsewhere on this machine (an
interface, firewall rules, a cgroup) has a name made from the path of the directory, so that it
is found again without any record, and two instances never have the same.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

from rdd.vm.instance_dir import InstanceDirectory

NAME = "host"  # of the driver; also of its pid file


@dataclass(frozen=True, slots=True)
class MachinePaths:
    """Where things of one machine are."""

    directory: InstanceDirectory

    @property
    def tag(self) -> str:
        """Eight characters that stand for this instance directory on this machine."""
        return f"{zlib.crc32(str(self.directory.path.absolute()).encode()):08x}"

    @property
    def link(self) -> str:
        """The network interface that leads to the engine (at most 15 characters)."""
        return f"rdd{self.tag}"

    @property
    def comment(self) -> str:
        """What marks our firewall rules."""
        return f"rdd-{self.tag}"

    @property
    def cgroup(self) -> str:
        """The cgroup of the containers."""
        return f"/rdd/{self.tag}"

    @property
    def pid_file(self) -> Path:
        """The process that holds the namespaces; the agent's own where there are none."""
        return self.directory.pid_file(NAME)

    @property
    def identity_file(self) -> Path:
        """Its identity."""
        return self.directory.identity_file(NAME)

    @property
    def record(self) -> Path:
        """What another agent needs to take over, and what must be undone at the end."""
        return self.directory.path / "host.json"

    @property
    def ended(self) -> Path:
        """Which service ended by itself, and how."""
        return self.directory.path / "host.ended"

    @property
    def staging(self) -> Path:
        """Where the private /run is put together; an empty directory outside."""
        return self.directory.path / "host.run"

    def data(self, engine: str) -> Path:
        """Images, containers and volumes of an engine."""
        return self.directory.path / engine

    def config(self, service: str) -> Path:
        """The configuration of a service."""
        return self.directory.path / f"{service}.conf"

    def log(self, service: str) -> Path:
        """The log of a service, without `.log` as the rotation counts in between."""
        return self.directory.path / f"{service}.log"
