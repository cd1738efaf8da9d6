# SPDX-License-Identifier: Apache-2.0
"""Publishes the Docker context of the instance while its engine is connected.

The context makes `docker --context` work. It becomes the current one only if the
user's current context does not work; that check takes up to three seconds and runs
once per connection, concurrently with other work. The condition of the App waits for
it (`is_decided`): once the App is settled, `docker` works. Files of the user are
changed in threads, since they are locked and may be on a slow disk.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from rdd.controllers.environment import ControllerEnvironment
from rdd.host.contexts import docker_contexts
from rdd.host.contexts.docker_health import should_switch
from rdd.host.errors import HostError

log = logging.getLogger("rdd.engine")

LIMIT_S = 4.0
"""The limit of the check: a probe of 3 s and a locked file."""


class DockerContext:
    """The Docker context of one instance."""

    def __init__(self, env: ControllerEnvironment) -> None:
        self._environment = env.environment
        given = self._environment.get("DOCKER_CONFIG")
        self._directory = Path(given) if given else env.home / ".docker"
        self._name = env.instance.name
        self._host = env.instance.docker_endpoint
        self._probe: asyncio.Task[None] | None = None
        self._is_withdrawn = False
        self.problem = ""
        """Why the context is missing or not as expected."""

    @property
    def is_decided(self) -> bool:
        """Whether no check is running."""
        return self._probe is None or self._probe.done()

    async def publish(self, decided: Callable[[], None]) -> None:
        """Write the context, and start the check whether it should become the current one.

        The callback `decided` runs when the check ends, at the latest after LIMIT_S.
        """
        self._is_withdrawn = False
        self.problem = ""
        try:
            await asyncio.to_thread(
                docker_contexts.publish, self._directory, self._name, host=self._host
            )
        except HostError as error:
            self._failed("the Docker context was not published", error)
            return
        if self.is_decided:
            self._probe = asyncio.get_running_loop().create_task(
                self._choose(), name="rdd-docker-context"
            )
            self._probe.add_done_callback(lambda _: decided())

    async def withdraw(self) -> None:
        """Remove the context; a no-op if it is already removed."""
        if self._is_withdrawn:
            return
        self.problem = ""
        await self.stop()
        try:
            await asyncio.to_thread(docker_contexts.remove, self._directory, self._name)
            self._is_withdrawn = True
        except HostError as error:
            log.warning("the Docker context was not removed: %s", error)

    async def stop(self) -> None:
        """Cancel the check."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
            self._probe = None

    async def _choose(self) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._switch()
        except TimeoutError:
            self._failed("the current Docker context was not changed", f"timeout of {LIMIT_S:g} s")
        except HostError as error:
            self._failed("the current Docker context was not changed", error)

    def _failed(self, what: str, why: object) -> None:
        self.problem = f"{what}: {why}"
        log.warning("%s", self.problem)

    async def _switch(self) -> None:
        await asyncio.to_thread(docker_contexts.current, self._directory)  # raises if unreadable
        verdict = await should_switch(self._directory, self._name, environment=self._environment)
        log.debug("Docker context %s: %s", self._name, verdict.reason)
        if not verdict.should_switch:
            return
        changed = await asyncio.to_thread(
            docker_contexts.make_current,
            self._directory,
            self._name,
            instead_of=verdict.current,
        )
        if changed:
            log.info("switched to Docker context %s: %s", self._name, verdict.reason)
