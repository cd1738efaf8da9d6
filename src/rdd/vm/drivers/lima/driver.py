# SPDX-License-Identifier: Apache-2.0
"""The limactl command lines that run a machine and open a shell in it."""

from collections.abc import Mapping, Sequence

from rdd.vm.drivers.lima import limactl
from rdd.vm.drivers.protocol import AgentCommand, ShellCommand
from rdd.vm.instance_dir import InstanceDirectory

START_S = 60.0
"""Timeout for limactl to write its pid file: it may have to grow a disk first."""


def agent_command(directory: InstanceDirectory, environment: Mapping[str, str]) -> AgentCommand:
    """Return how to start Lima's host agent. Raises HostError without limactl."""
    argv = (*limactl.command(environment), "start", "--foreground", directory.name)
    return AgentCommand(argv, START_S)


def shell_command(
    directory: InstanceDirectory,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    shell: str = "",
    workdir: str = "",
) -> ShellCommand:
    """Return a `limactl shell` command; limactl detects a terminal itself."""
    options = [*(["--shell", shell] if shell else []), *(["--workdir", workdir] if workdir else [])]
    words = ["--", *command] if command else []
    argv = (limactl.program(environment), "shell", *options, directory.name, *words)
    return ShellCommand(argv, limactl.environment_for(directory, environment))
