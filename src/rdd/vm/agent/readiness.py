# SPDX-License-Identifier: Apache-2.0
"""Readiness: waiting for the requirements of a machine.

The agent waits for one requirement after the other, in the order of their phases, and logs
them with Lima's texts. An essential requirement that times out ends the agent. Any other
leaves the machine degraded.
"""

import asyncio
from collections.abc import Iterable
from itertools import groupby

from rdd.host.errors import HostError
from rdd.vm.agent.events import AgentLog, EventStream
from rdd.vm.drivers.protocol import Requirement, RequirementPhase, Unmet
from rdd.vm.problem import Problem


async def wait_for_requirements(
    requirements: Iterable[Requirement], events: EventStream, log: AgentLog
) -> None:
    """Wait for requirements sorted by phase. Raises HostError when an essential one fails."""
    for phase, group in groupby(requirements, key=lambda requirement: requirement.phase):
        members = list(group)
        for number, requirement in enumerate(members, 1):
            title = f"{phase} requirement {number} of {len(members)}"
            log.write("info", f'Waiting for the {title}: "{requirement.description}"')
            progress = (phase, number, len(members), requirement.description)
            events.requirement("waiting", *progress)
            problem = await _wait_for_one(requirement, log)
            events.requirement("failed" if problem else "satisfied", *progress)
            if not problem:
                log.write("info", f"The {title} is satisfied")
                continue
            if phase is RequirementPhase.ESSENTIAL:
                raise HostError(problem)
            log.write("warning", problem)
            events.degraded(Problem(problem))


async def _wait_for_one(requirement: Requirement, log: AgentLog) -> str:
    """Retry until the requirement is met; return an error after the timeout."""
    last = ""
    try:
        async with asyncio.timeout(requirement.timeout_s):
            while True:
                try:
                    await requirement.check()
                    return ""
                except Unmet as unmet:
                    if str(unmet) != last:
                        last = str(unmet)
                        log.write("debug", f"{requirement.description}: {last}")
                await asyncio.sleep(requirement.interval_s)
    except TimeoutError:
        hint = f" ({requirement.hint})" if requirement.hint else ""
        reason = f": {last}" if last else ""
        return (
            f'the requirement "{requirement.description}" was not met within '
            f"{requirement.timeout_s:g} s{reason}{hint}"
        )
