# SPDX-License-Identifier: Apache-2.0
"""The process of a host agent: pid file, signal handlers, control socket, cleanup.

The pid file and the socket come first, so that the daemon detects the agent before the driver
is even imported. SIGINT and SIGTERM shut the machine down. SIGHUP has no effect: the agent
must survive the daemon's terminal.
"""

import asyncio
import os
import signal
from collections.abc import Mapping

from rdd.host.errors import HostError
from rdd.host.signals import accept_signals
from rdd.vm.agent.agent import HostAgent, StopRequest, problem_of
from rdd.vm.agent.control import ControlSocket
from rdd.vm.agent.events import AgentLog, EventStream
from rdd.vm.agent.options import AgentOptions
from rdd.vm.agent.pid_file import PidFile
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import AgentDriven, Driver, DriverContext
from rdd.vm.instance_dir import InstanceDirectory, InvalidName, LimaHome
from rdd.vm.problem import Problem
from rdd.vm.template.errors import TemplateError


def run(options: AgentOptions, environment: Mapping[str, str]) -> int:
    """Run an agent until it ends; return the exit code."""
    log = AgentLog(debug=options.debug)
    try:
        directory = _open(options)
        pid_file = PidFile.claim(options.pidfile or directory.ha_pid, directory.ha_lock)
    except (HostError, InvalidName) as error:
        log.write("fatal", str(error))
        return 1
    try:
        return asyncio.run(_run(options, directory, environment, log))
    finally:
        pid_file.release()


def _open(options: AgentOptions) -> InstanceDirectory:
    directory = LimaHome(options.lima_home).open(options.name)
    if directory is None:
        raise HostError(f'instance "{options.name}" does not exist in "{options.lima_home}"')
    if os.getpid() != os.getpgid(0):
        try:
            os.setpgid(0, 0)  # signals to the daemon's group must not reach the agent
        except OSError as error:
            raise HostError.from_os("leave the process group", error) from error
    return directory


async def _run(
    options: AgentOptions,
    directory: InstanceDirectory,
    environment: Mapping[str, str],
    log: AgentLog,
) -> int:
    events = EventStream()
    try:
        template = directory.template()
        context = DriverContext(
            directory=directory,
            template=template,
            environment=environment,
            warn=lambda text: log.write("warning", text),
            degrade=lambda message: events.degraded(Problem(message)),
            limited=events.limited,
            clock=events.clock,
            memory=events.memory,
            disk=events.disk,
            debug=options.debug,
        )
        name = directory.driver or template.vm_type
        driver = make_driver(name, context)
        agent = HostAgent(driver, template, directory, events=events, log=log)
        control = ControlSocket(options.socket, agent.routes())
        await control.open()
        log.write("info", f"hostagent socket created at {options.socket}")
    except (HostError, TemplateError) as error:
        log.write("fatal", str(error))
        events.exiting([problem_of(error)])
        return 1
    try:
        _handle_signals(agent)
        return await agent.run()
    finally:
        await control.close()


def make_driver(name: str, context: DriverContext) -> Driver:
    """Return the driver of a machine. Raises HostError if a foreign agent must run it."""
    provider = catalog.provider(name)
    if not isinstance(provider, AgentDriven):
        raise HostError(
            f'machine "{context.directory.name}" is run by the driver {name}, which has its own '
            "host agent"
        )
    return provider.make_driver(context)


def _handle_signals(agent: HostAgent) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, agent.request, StopRequest.STOP)
    # A handler and not SIG_IGN, which the driver and its children would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    accept_signals()
