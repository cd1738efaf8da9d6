# SPDX-License-Identifier: Apache-2.0
"""A shell for a machine without a guest: on this host, with the template's environment.

DOCKER_HOST points to the machine's engine, the default of `docker` in a virtual machine.
"""

import shlex
from pathlib import Path

from rdd.vm.drivers.host.services import CONTAINERD_SOCKET, docker_sockets, engine_of
from rdd.vm.drivers.protocol import ShellCommand, ShellRequest
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import Template


def shell_command(
    directory: InstanceDirectory, template: Template, request: ShellRequest
) -> ShellCommand:
    environment = request.environment
    program = request.shell or template.user.shell or environment.get("SHELL", "") or "/bin/sh"
    argv: tuple[str, ...] = (program, "-l")
    if request.command:
        argv = (*argv, "-c", shlex.join(request.command))
    env = {**environment, **engine_variables(directory, template), **template.env}
    return ShellCommand(argv, env, Path(request.workdir) if request.workdir else None)


def engine_variables(directory: InstanceDirectory, template: Template) -> dict[str, str]:
    """Return the variables that point clients to the engine of a machine."""
    engine = engine_of(template)
    if engine == "moby":
        sockets = docker_sockets(template)
        return {"DOCKER_HOST": f"unix://{sockets[0]}"} if sockets else {}
    if engine == "containerd":
        return {"CONTAINERD_ADDRESS": str(directory.sockets / CONTAINERD_SOCKET)}
    return {}
