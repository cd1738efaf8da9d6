# SPDX-License-Identifier: Apache-2.0
"""Bringing up a host agent.

An agent takes over a driver that runs, or starts one. It gets a session of its own and its
output goes to files, so it lives on when the daemon ends, however that ends. Logs of the run
before are put aside first. The agent says that it is there by writing its process id; what it
says before it dies is the reason why it did not come up.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import Mapping, Sequence

from rdd.host.changes import Changes
from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.files import remove
from rdd.host.logs import rotate
from rdd.host.processes import Identity, identity, send_signal
from rdd.host.spawn import spawn_detached
from rdd.vm.drivers.protocol import AgentCommand
from rdd.vm.errors import NotCreated, StartFailed
from rdd.vm.instance_dir import (
    AGENT_STDERR,
    AGENT_STDOUT,
    SERIAL_LOGS,
    InstanceDirectory,
    InstanceStatus,
)
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.lifecycle.monitor import AgentProcess, exit_reason, log_tail, wait_for_pid_file
from rdd.vm.process_files import write_identity
from rdd.vm.template import HostFacts, TemplateError

PID_FILE_TIMEOUT_S = 5.0
_KILL_TIMEOUT_S = 5.0


def check_startable(directory: InstanceDirectory) -> None:
    """Raise NotCreated, or HostError, unless the machine can be started."""
    if directory.status() is InstanceStatus.UNINITIALIZED:
        raise NotCreated(f'machine "{directory.name}" is not created')
    directory.check_socket_paths(directory.driver)


def prepare_files(
    directory: InstanceDirectory, facts: HostFacts, environment: Mapping[str, str]
) -> None:
    """Make the files of a new run ready. Raises HostError."""
    try:
        directory.refresh_template(facts)
    except TemplateError as error:
        raise HostError(f'"{directory.lima_yaml}" is invalid: {error}') from error
    keep_all = bool(environment.get("RDD_KEEP_LOGS"))
    title = environment.get("RDD_LOG_TITLE", "")
    first_line = json.dumps({"title": title}, separators=(",", ":")) if title else ""
    for name in (AGENT_STDOUT, AGENT_STDERR):
        rotate(directory.path, name, keep_all=keep_all, first_line=first_line)
    for name in SERIAL_LOGS:
        rotate(directory.path, name, keep_all=keep_all, create=False)
    if directory.agent() is None:  # what a dead one left would pass for the new one's
        remove(directory.ha_pid)
        remove(directory.ha_identity)


async def start_agent(
    directory: InstanceDirectory,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    changes: Changes,
    debug: bool = False,
    timeout_s: float = PID_FILE_TIMEOUT_S,
) -> AgentProcess:
    """Start an agent and wait until it is there. Raises StartFailed; nothing then runs."""
    arguments = ["--pidfile", str(directory.ha_pid), "--socket", str(directory.ha_sock)]
    if debug:
        arguments.append("--debug")
    process = spawn_detached(
        [*command, *arguments, directory.name],
        environment={**environment, "LIMA_HOME": str(directory.path.parent)},
        directory=directory.path,
        stdout=directory.ha_stdout,
        stderr=directory.ha_stderr,
    )
    return await _wait_for(directory, process, changes, timeout_s)


async def start_external_agent(
    directory: InstanceDirectory,
    command: AgentCommand,
    *,
    environment: Mapping[str, str],
    changes: Changes,
) -> AgentProcess:
    """Start an agent that is not our program. Raises StartFailed; nothing then runs.

    It writes no identity beside its process id, so that is done here.
    """
    process = spawn_detached(
        command.argv,
        environment={**environment, "LIMA_HOME": str(directory.path.parent)},
        directory=directory.path,
        stdout=directory.ha_stdout,
        stderr=directory.ha_stderr,
        blocks_signals=False,
    )
    agent = await _wait_for(directory, process, changes, command.start_s)
    write_identity(directory.ha_identity, agent.identity)
    return agent


async def _wait_for(
    directory: InstanceDirectory,
    process: "subprocess.Popen[bytes]",
    changes: Changes,
    timeout_s: float,
) -> AgentProcess:
    who = identity(process.pid)
    if who is None:
        raise _failed(directory, process.wait())
    agent = AgentProcess(who, process)
    try:
        if await _came_up(directory, agent, changes, timeout_s):
            return agent
    except BaseException:
        await asyncio.shield(_give_up(agent, who))
        raise
    if not await ended_within(who, 0):
        await _give_up(agent, who)
        raise _failed(directory, None, timeout_s=timeout_s)
    raise _failed(directory, await agent.wait())


async def _came_up(
    directory: InstanceDirectory, agent: AgentProcess, changes: Changes, timeout_s: float
) -> bool:
    """Wait for the pid file or the end of the process, whichever is first."""
    there = asyncio.ensure_future(
        wait_for_pid_file(directory, agent.identity.pid, changes=changes, timeout_s=timeout_s)
    )
    ended = asyncio.ensure_future(wait_ended(agent.identity))
    try:
        await asyncio.wait((there, ended), return_when=asyncio.FIRST_COMPLETED)
        return not ended.done() and there.done() and there.result()
    finally:
        for task in (there, ended):
            task.cancel()
        await asyncio.gather(there, ended, return_exceptions=True)


async def _give_up(agent: AgentProcess, who: Identity) -> None:
    """End an agent that did not come up: it may have begun to start a driver."""
    send_signal(who, signal.SIGINT)
    if not await ended_within(who, _KILL_TIMEOUT_S):
        await kill_all([who], timeout_s=_KILL_TIMEOUT_S)
    if await ended_within(who, 0):
        await agent.wait()
    else:
        agent.detach()


def _failed(directory: InstanceDirectory, code: int | None, *, timeout_s: float = 0) -> StartFailed:
    tail = log_tail(directory)
    why = exit_reason(code)
    if timeout_s:
        why = f'the host agent did not write "{directory.ha_pid}" within {timeout_s:g} s'
    said = f": {' / '.join(tail)}" if tail else f'; its log "{directory.ha_stderr}" is empty'
    return StartFailed(f"{why}{said}", exit_code=code, log_tail=tail)
