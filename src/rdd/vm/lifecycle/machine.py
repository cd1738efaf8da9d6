# SPDX-License-Identifier: Apache-2.0
"""One machine that is looked after.

What is known of it is an `Observation`, replaced as a whole; each change is told once. Three
things change it: events of the agent, the end of the agent, and our own request to stop. While a
stop is under way it has the last word: the end of the agent is not the end of the machine
until everything is tidied up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rdd.host.changes import Changes
from rdd.host.errors import HostError
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.monitor import AgentProcess, EventTail, exit_reason, log_tail
from rdd.vm.lifecycle.observation import Observation, Phase
from rdd.vm.lifecycle.stop import StopOperation


class Machine:
    """A machine of which an agent is, was or is being started by us."""

    def __init__(
        self, directory: InstanceDirectory, *, changes: Changes, changed: Callable[[], None]
    ) -> None:
        self.directory = directory
        self.lock = asyncio.Lock()
        """Held by whoever creates, starts, adopts or deletes."""
        self.observation = Observation()
        self._changes = changes
        self._changed = changed
        self._agent: AgentProcess | None = None
        self._tail: EventTail | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._stop: StopOperation | None = None
        self._stop_task: asyncio.Task[None] | None = None

    def set(self, observation: Observation) -> None:
        """Replace what is known, and tell if it is news."""
        if observation != self.observation:
            self.observation = observation
            self._changed()

    @property
    def is_watched(self) -> bool:
        """Whether an agent is followed."""
        return self._watcher is not None and not self._watcher.done()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop is under way."""
        return self._stop_task is not None and not self._stop_task.done()

    def watch(self, agent: AgentProcess) -> None:
        """Follow an agent that has just come up. Raises HostError."""
        self._unwatch()
        self._agent = agent
        tail = self._tail = EventTail(self.directory, self._changes)
        tail.follow(self._read_events)
        if not self.is_stopping:
            self.set(Observation(phase=Phase.STARTING, agent_pid=agent.identity.pid))
        self._read_events()
        self._watcher = asyncio.create_task(
            self._follow_end(agent), name=f"watch machine {self.directory.name}"
        )

    def _read_events(self) -> None:
        if self._tail is None:
            return
        observation = self.observation
        for status in self._tail.events():
            observation = observation.after(status)
        self.set(observation)

    async def _follow_end(self, agent: AgentProcess) -> None:
        code = await agent.wait()
        if self._agent is not agent:
            return
        self._read_events()
        self._unwatch()
        if not self.is_stopping:
            self.set(self._ended(code))

    def _ended(self, code: int | None) -> Observation:
        seen = self.observation
        return replace(
            seen,
            phase=Phase.STOPPED,
            degraded=False,
            problems=(),
            forwards=(),
            progress="",
            agent_pid=0,
            exit_code=code,
            reason="" if seen.is_stop_wanted else _reason(seen, code),
            log_tail=log_tail(self.directory),
        )

    def stop(
        self,
        *,
        grace_s: float,
        force_s: float,
        start_agent: Callable[[], Awaitable[Identity]],
        suspend: bool = False,
    ) -> "asyncio.Task[None]":
        """Begin to stop, or hurry a stop that is under way."""
        if self._stop is not None and self._stop_task is not None and not self._stop_task.done():
            self._stop.hurry(grace_s)
            return self._stop_task
        self._stop = StopOperation(
            self.directory,
            grace_s=grace_s,
            force_s=force_s,
            agent=self._agent.identity if self._agent else None,
            start_agent=start_agent,
            suspend=suspend,
        )
        self.set(
            replace(
                self.observation,
                phase=Phase.STOPPING,
                is_stop_wanted=True,
                stop_error="",
                reason="",
            )
        )
        self._stop_task = asyncio.create_task(
            self._run_stop(self._stop), name=f"stop machine {self.directory.name}"
        )
        return self._stop_task

    async def _run_stop(self, stop: StopOperation) -> None:
        """Never raises: what went wrong is part of what is known."""
        try:
            await stop.run()
        except HostError as error:
            runs = self.directory.agent() is not None
            self._stop_task = None
            phase = Phase.RUNNING if runs else Phase.STOPPED
            self.set(replace(self.observation, phase=phase, stop_error=str(error)))
            return
        if self._agent is not None:
            await self._agent.wait()
        self._unwatch()
        self._stop_task = None
        reason = "it did not stop in time and was killed" if stop.was_forced else ""
        self.set(replace(self._ended(None), reason=reason))

    def _unwatch(self) -> None:
        """StopOperation following the agent, which has ended or is about to be replaced."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        watcher, self._watcher, self._agent = self._watcher, None, None
        if watcher is not None and watcher is not asyncio.current_task():
            watcher.cancel()

    async def detach(self) -> None:
        """StopOperation looking after the machine; whatever runs goes on."""
        tasks = [task for task in (self._watcher, self._stop_task) if task is not None]
        if self._agent is not None:
            self._agent.detach()
        self._unwatch()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reason(seen: Observation, code: int | None) -> str:
    return exit_reason(code) + (f": {'; '.join(seen.errors)}" if seen.errors else "")
