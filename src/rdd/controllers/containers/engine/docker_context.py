# SPDX-License-Identifier: Apache-2.0
"""Our Docker context, for as long as our engine can be reached.

Publishing it makes `docker --context` work; it becomes the current one only if
the user's current one leads nowhere, which may take a few seconds to find out and
is decided once per connection. Mostly it is clear at once, and waited for: when the
App is settled, `docker` works. Files of the user are changed in threads: they
may be on a slow disk, and are locked.
"""

import asyncio
import logging
from pathlib import Path

from rdd.controllers.surroundings import Surroundings
from rdd.host import docker_contexts
from rdd.host.docker_health import should_switch
from rdd.host.errors import HostError

log = logging.getLogger("rdd.engine")

_PATIENCE_S = 0.5


class DockerContext:
    """The context of one instance."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._environment = surroundings.environment
        given = self._environment.get("DOCKER_CONFIG")
        self._directory = Path(given) if given else surroundings.home / ".docker"
        self._name = surroundings.instance.name
        self._host = surroundings.instance.docker_endpoint
        self._probe: asyncio.Task[None] | None = None
        self._is_withdrawn = False

    async def publish(self) -> None:
        """Have the context, and begin to find out whether it should be the current one."""
        self._is_withdrawn = False
        try:
            await asyncio.to_thread(
                docker_contexts.publish, self._directory, self._name, host=self._host
            )
        except HostError as error:
            log.warning("the Docker context was not published: %s", error)
            return
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(
                self._choose(), name="rdd-docker-context"
            )
        await asyncio.wait((self._probe,), timeout=_PATIENCE_S)

    async def withdraw(self) -> None:
        """Have no context; nothing is read or written if that is known to be so."""
        if self._is_withdrawn:
            return
        await self.stop()
        try:
            await asyncio.to_thread(docker_contexts.remove, self._directory, self._name)
            self._is_withdrawn = True
        except HostError as error:
            log.warning("the Docker context was not removed: %s", error)

    async def stop(self) -> None:
        """Decide nothing any more."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
            self._probe = None

    async def _choose(self) -> None:
        verdict = await should_switch(self._directory, self._name, environment=self._environment)
        log.debug("Docker context %s: %s", self._name, verdict.reason)
        if not verdict.should_switch:
            return
        try:
            changed = await asyncio.to_thread(
                docker_contexts.make_current,
                self._directory,
                self._name,
                instead_of=verdict.current,
            )
            if changed:
                log.info("Docker context %s is the current one: %s", self._name, verdict.reason)
        except HostError as error:
            log.warning("the current Docker context stays: %s", error)
