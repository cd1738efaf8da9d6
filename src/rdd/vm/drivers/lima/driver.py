# SPDX-License-Identifier: Apache-2.0
"""The limactl command lines that run a machine and open a shell in it."""

from collections.abc import Mapping

from rdd.vm.drivers.lima import limactl
from rdd.vm.drivers.protocol import AgentCommand, ShellCommand, ShellRequest
from rdd.vm.instance_dir import InstanceDirectory

START_S = 60.0
"""Timeout for limactl to write its pid file: it may have to grow a disk first."""


def agent_command(directory: InstanceDirectory, environment: Mapping[str, str]) -> AgentCommand:
    """Return how to start Lima's host agent. Raises HostError without limactl."""
    argv = (*limactl.command(environment), "start", "--foreground", directory.name)
    return AgentCommand(argv, START_S)


def shell_command(directory: InstanceDirectory, request: ShellRequest) -> ShellCommand:
    """Return a `limactl shell` command; limactl detects a terminal itself."""
    options = ["--shell", request.shell] if request.shell else []
    options += ["--workdir", request.workdir] if request.workdir else []
    words = ["--", *request.command] if request.command else []
    argv = (limactl.program(request.environment), "shell", *options, directory.name, *words)
    return ShellCommand(argv, limactl.environment_for(directory, request.environment))
