# SPDX-License-Identifier: Apache-2.0
"""One monitored machine.

Its state is an `Observation`, replaced as a whole; `changed` is called once per change. Three
sources change it: events of the agent, the end of the agent, and a stop request. A stop in
progress takes precedence: the end of the agent does not make the machine STOPPED until the
cleanup has finished.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher
from rdd.host.processes import Identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.monitor import AgentProcess, EventTail, exit_reason, log_tail
from rdd.vm.lifecycle.observation import Observation, Phase
from rdd.vm.lifecycle.stop import StopOperation
from rdd.vm.lifecycle.stopped_agent import StoppedAgentWatch


class Machine:
    """A machine whose agent this daemon starts, monitors or has monitored."""

    def __init__(
        self, directory: InstanceDirectory, *, changes: FileWatcher, changed: Callable[[], None]
    ) -> None:
        self.directory = directory
        self.lock = asyncio.Lock()
        """Held during create, start, adopt, delete and disk operations; never two at once."""
        self.observation = Observation()
        self._changes = changes
        self._changed = changed
        self._agent: AgentProcess | None = None
        self._tail: EventTail | None = None
        self._stopped: StoppedAgentWatch | None = None
        self._monitor: asyncio.Task[None] | None = None
        self._stop: StopOperation | None = None
        self._stop_task: asyncio.Task[None] | None = None

    def set(self, observation: Observation) -> None:
        """Replace the observation, and call `changed` if it differs."""
        if observation != self.observation:
            self.observation = observation
            self._changed()

    @property
    def is_monitored(self) -> bool:
        """Whether the events of an agent are followed."""
        return self._monitor is not None and not self._monitor.done()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop is in progress."""
        return self._stop_task is not None and not self._stop_task.done()

    def monitor(self, agent: AgentProcess) -> None:
        """Follow the events and the end of an agent. Raises HostError."""
        self._unfollow()
        self._agent = agent
        tail = self._tail = EventTail(self.directory, self._changes)
        tail.follow(self._read_events)
        if not self.is_stopping:
            self.set(Observation(phase=Phase.STARTING, agent_pid=agent.identity.pid))
        self._read_events()
        self._stopped = agent.watch_stops(self._set_agent_stopped)
        self._monitor = asyncio.create_task(
            self._follow_end(agent), name=f"monitor machine {self.directory.name}"
        )

    def _set_agent_stopped(self, is_stopped: bool) -> None:
        self.set(replace(self.observation, is_agent_stopped=is_stopped))

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
        self._unfollow()
        if not self.is_stopping:
            self.set(self._ended(code))

    def _ended(self, code: int | None) -> Observation:
        seen = self.observation
        return replace(
            seen,
            phase=Phase.STOPPED,
            degraded=False,
            is_agent_stopped=False,
            # Those of the last event are why the agent ended.
            problems=seen.problems if seen.phase is Phase.STOPPING else (),
            forwards=(),
            idle=None,
            progress="",
            agent_pid=0,
            exit_code=code,
            reason="" if seen.is_stop_requested else _reason(seen, code),
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
        """Begin to stop, or shorten the timeout of a stop in progress."""
        if self._stop is not None and self._stop_task is not None and not self._stop_task.done():
            self._stop.shorten(grace_s)
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
                is_stop_requested=True,
                stop_error="",
                reason="",
            )
        )
        self._stop_task = asyncio.create_task(
            self._run_stop(self._stop), name=f"stop machine {self.directory.name}"
        )
        return self._stop_task

    async def _run_stop(self, stop: StopOperation) -> None:
        """Run a stop; a failure becomes part of the observation."""
        try:
            await stop.run()
        except HostError as error:
            has_agent = self.directory.agent() is not None
            self._stop_task = None
            phase = Phase.RUNNING if has_agent else Phase.STOPPED
            self.set(replace(self.observation, phase=phase, stop_error=str(error)))
            return
        if self._agent is not None:
            await self._agent.wait()
        self._unfollow()
        self._stop_task = None
        reason = "it did not stop in time and was killed" if stop.was_forced else ""
        self.set(replace(self._ended(None), reason=reason))

    def _unfollow(self) -> None:
        """Stop following the agent, which has ended or is about to be replaced."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        if self._stopped is not None:
            self._stopped.close()
            self._stopped = None
        monitor, self._monitor, self._agent = self._monitor, None, None
        if monitor is not None and monitor is not asyncio.current_task():
            monitor.cancel()

    async def detach(self) -> None:
        """Stop monitoring; the processes of the machine run on."""
        tasks = [task for task in (self._monitor, self._stop_task) if task is not None]
        if self._agent is not None:
            self._agent.detach()
        self._unfollow()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reason(seen: Observation, code: int | None) -> str:
    return exit_reason(code) + (f": {'; '.join(seen.errors)}" if seen.errors else "")
