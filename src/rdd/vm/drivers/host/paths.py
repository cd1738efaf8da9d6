# SPDX-License-Identifier: Apache-2.0
"""The paths and names of a machine of this driver.

All files are in the instance directory. Resources elsewhere on this host (an interface,
firewall rules, a cgroup) have names derived from the path of the directory: they are
identifiable without any record, and unique to the instance.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

from rdd.vm.instance_dir import InstanceDirectory

NAME = "host"  # the driver, and its pid file


@dataclass(frozen=True, slots=True)
class MachinePaths:
    directory: InstanceDirectory

    @property
    def tag(self) -> str:
        """Eight characters that identify this instance directory on this host."""
        return f"{zlib.crc32(str(self.directory.path.absolute()).encode()):08x}"

    @property
    def link(self) -> str:
        """The host end of the veth pair (at most 15 characters)."""
        return f"rdd{self.tag}"

    @property
    def comment(self) -> str:
        """The comment of all firewall rules of this machine."""
        return f"rdd-{self.tag}"

    @property
    def cgroup(self) -> str:
        return f"/rdd/{self.tag}"

    @property
    def pid_file(self) -> Path:
        """Pid file of the first process of the namespaces, or of the agent without an engine."""
        return self.directory.pid_file(NAME)

    @property
    def identity_file(self) -> Path:
        return self.directory.identity_file(NAME)

    @property
    def state_file(self) -> Path:
        return self.directory.path / "host.json"

    @property
    def ended(self) -> Path:
        """Name and exit status of the service that ended by itself."""
        return self.directory.path / "host.ended"

    @property
    def staging(self) -> Path:
        """Mount point on which the private /run is assembled; outside an empty directory."""
        return self.directory.path / "host.run"

    @property
    def proxy(self) -> Path:
        """The program that dockerd starts for each published port."""
        return self.directory.path / "docker-proxy"

    def data(self, engine: str) -> Path:
        return self.directory.path / engine

    def config(self, service: str) -> Path:
        return self.directory.path / f"{service}.conf"

    def log(self, service: str) -> Path:
        return self.directory.path / f"{service}.log"
