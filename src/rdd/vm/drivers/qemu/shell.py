# SPDX-License-Identifier: Apache-2.0
"""A shell in a guest, through the control master of its agent."""

import shlex

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import ShellCommand, ShellRequest
from rdd.vm.drivers.qemu import files
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.ssh import CONFIG_DIR, KEY, SshTarget
from rdd.vm.template.model import Template


def shell_command(
    directory: InstanceDirectory, template: Template, request: ShellRequest
) -> ShellCommand:
    state = files.read_state(directory)
    if state is None:
        raise HostError(f'machine "{directory.name}" has never run')
    target = SshTarget(
        port=state.ssh_port,
        user=template.user.name,
        identity=directory.path.parent / CONFIG_DIR / KEY,
        control=directory.ssh_sock,
        forward_agent=template.ssh.forward_agent,
    )
    program = shlex.quote(request.shell) if request.shell else '"${SHELL:-/bin/sh}"'
    line = f"exec {program} -l"
    if request.command:
        line = f"exec {program} -l -c {shlex.quote(shlex.join(request.command))}"
    if request.workdir:
        line = f"cd {shlex.quote(request.workdir)} || exit 1; {line}"
    # The master belongs to the agent: a shell must not become the master and outlive its user.
    argv = target.command(line, is_terminal=request.is_terminal, ControlMaster="no")
    return ShellCommand(tuple(argv), dict(request.environment))
