# SPDX-License-Identifier: Apache-2.0
"""A shell in a guest, through the control master of its agent."""

import shlex
from collections.abc import Mapping, Sequence

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import ShellCommand
from rdd.vm.drivers.qemu import files
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.ssh import CONFIG_DIR, KEY, SshTarget
from rdd.vm.template.model import Template


def shell_command(
    directory: InstanceDirectory,
    template: Template,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    shell: str = "",
    workdir: str = "",
    is_terminal: bool = False,
) -> ShellCommand:
    """Return how to run a command; without a command, a login shell. Raises HostError."""
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
    program = shlex.quote(shell) if shell else '"${SHELL:-/bin/sh}"'
    line = f"exec {program} -l"
    if command:
        line = f"exec {program} -l -c {shlex.quote(shlex.join(command))}"
    if workdir:
        line = f"cd {shlex.quote(workdir)} || exit 1; {line}"
    # The master belongs to the agent: a shell must not become the master and outlive its user.
    argv = target.command(line, is_terminal=is_terminal, ControlMaster="no")
    return ShellCommand(tuple(argv), dict(environment))
