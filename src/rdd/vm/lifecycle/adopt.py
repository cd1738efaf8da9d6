# SPDX-License-Identifier: Apache-2.0
"""Adoption: a daemon takes over a machine that runs without it.

An earlier daemon, or an agent that died, left the machine running. The host agent is bound to
the event files that its daemon rotates, so a new daemon replaces the agent and keeps the
driver:

    agent responds and detaches      the new agent adopts the driver
    agent does not respond           the agent is killed, the driver is adopted
    agent responds, cannot detach    an agent that is not rdd's ends its driver with itself:
                                     it is interrupted, and the machine starts again

A driver with an external agent (Lima's) needs none of this: the daemon follows that agent.
"""

import logging
import signal

from rdd.host.exits import ended_within
from rdd.host.processes import Identity, send_signal
from rdd.vm.agent import client
from rdd.vm.errors import StopFailed
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.lifecycle.timeouts import Timeouts

_log = logging.getLogger(__name__)


async def end_orphaned_agent(
    directory: InstanceDirectory, agent: Identity, timeouts: Timeouts
) -> None:
    """End an agent, if possible without its driver. Raises HostError."""
    try:
        has_detached = await client.detach(directory.ha_sock, timeout_s=timeouts.response_s)
        wait_s = timeouts.detach_s
        if not has_detached:
            _log.info('machine "%s": its host agent cannot detach', directory.name)
            send_signal(agent, signal.SIGINT)
            wait_s = timeouts.grace_s
    except client.NoAnswer as error:
        _log.warning('machine "%s": %s; killing its host agent', directory.name, error)
        wait_s = 0
    if not await ended_within(agent, wait_s):
        problems = await kill_all([agent], timeout_s=timeouts.force_s)
        if problems:
            raise StopFailed("; ".join(problems))
