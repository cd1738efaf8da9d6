# SPDX-License-Identifier: Apache-2.0
"""Start of a host agent.

An agent adopts a running driver, or starts one. It gets a session of its own and its output
goes to files, so it survives every end of the daemon. The logs of the previous run are rotated
first. The agent signals that it runs by writing its pid file; if it ends before that, the end
of its log is the reason of the failure.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import Mapping, Sequence

from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.file_watcher import FileWatcher
from rdd.host.files import remove
from rdd.host.logs import rotate
from rdd.host.processes import Identity, identity, send_signal
from rdd.host.spawn import spawn_detached
from rdd.vm import reserve
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

_KILL_TIMEOUT_S = 5.0


def check_startable(directory: InstanceDirectory) -> None:
    """Raise NotCreated or HostError unless the machine can be started."""
    if directory.status() is InstanceStatus.UNINITIALIZED:
        raise NotCreated(f'machine "{directory.name}" is not created')
    directory.check_socket_paths(directory.driver)


def prepare_files(
    directory: InstanceDirectory, facts: HostFacts, environment: Mapping[str, str]
) -> None:
    """Prepare the files of a new run: resolved template, reserve, rotated logs.

    Raises HostError.
    """
    reserve.prepare(directory.path)  # first: what follows needs space
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
    if directory.agent() is None:  # stale files would be mistaken for those of the new agent
        remove(directory.ha_pid)
        remove(directory.ha_identity)


async def start_agent(
    directory: InstanceDirectory,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    changes: FileWatcher,
    timeout_s: float,
    debug: bool = False,
) -> AgentProcess:
    """Start rdd's agent and wait for its pid file. Raises StartFailed; nothing then runs."""
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
    return await _wait_until_up(directory, process, changes, timeout_s)


async def start_external_agent(
    directory: InstanceDirectory,
    command: AgentCommand,
    *,
    environment: Mapping[str, str],
    changes: FileWatcher,
) -> AgentProcess:
    """Start a foreign agent and wait for its pid file. Raises StartFailed; nothing then runs.

    Such an agent writes no identity file, so this function does.
    """
    process = spawn_detached(
        command.argv,
        environment={**environment, "LIMA_HOME": str(directory.path.parent)},
        directory=directory.path,
        stdout=directory.ha_stdout,
        stderr=directory.ha_stderr,
        blocks_signals=False,
    )
    agent = await _wait_until_up(directory, process, changes, command.start_s)
    write_identity(directory.ha_identity, agent.identity)
    return agent


async def _wait_until_up(
    directory: InstanceDirectory,
    process: "subprocess.Popen[bytes]",
    changes: FileWatcher,
    timeout_s: float,
) -> AgentProcess:
    who = identity(process.pid)
    if who is None:
        raise _failed(directory, process.wait())
    agent = AgentProcess(who, process)
    try:
        if await _has_pid_file(directory, agent, changes, timeout_s):
            return agent
    except BaseException:
        await asyncio.shield(_end(agent))
        raise
    if not await ended_within(who, 0):
        await _end(agent)
        raise _failed(directory, None, timeout_s=timeout_s)
    raise _failed(directory, await agent.wait())


async def _has_pid_file(
    directory: InstanceDirectory, agent: AgentProcess, changes: FileWatcher, timeout_s: float
) -> bool:
    """Wait for the pid file or the end of the process, whichever comes first."""
    written = asyncio.ensure_future(
        wait_for_pid_file(directory, agent.identity.pid, changes=changes, timeout_s=timeout_s)
    )
    ended = asyncio.ensure_future(wait_ended(agent.identity))
    try:
        await asyncio.wait((written, ended), return_when=asyncio.FIRST_COMPLETED)
        return not ended.done() and written.done() and written.result()
    finally:
        for task in (written, ended):
            task.cancel()
        await asyncio.gather(written, ended, return_exceptions=True)


async def _end(agent: AgentProcess) -> None:
    """End an agent that did not come up; it may have begun to start a driver."""
    process: Identity = agent.identity
    send_signal(process, signal.SIGINT)
    if not await ended_within(process, _KILL_TIMEOUT_S):
        await kill_all([process], timeout_s=_KILL_TIMEOUT_S)
    if await ended_within(process, 0):
        await agent.wait()
    else:
        agent.detach()


def _failed(directory: InstanceDirectory, code: int | None, *, timeout_s: float = 0) -> StartFailed:
    tail = log_tail(directory)
    reason = exit_reason(code)
    if timeout_s:
        reason = f'the host agent did not write "{directory.ha_pid}" within {timeout_s:g} s'
    log = f": {' / '.join(tail)}" if tail else f'; its log "{directory.ha_stderr}" is empty'
    return StartFailed(f"{reason}{log}", exit_code=code, log_tail=tail)
