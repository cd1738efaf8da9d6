# SPDX-License-Identifier: Apache-2.0
"""A change of the shared identity at one server reaches the others while they run.

The files in `--identity-dir` are the truth, but a file system of several machines reports no
changes of another one. So the server that rotates the tokens or renews the certificate writes the
digest of its identity to the ConfigMap `identity` of `rdd-system`; the others read the directory
again when the digest is not their own. A directory that does not have the announced identity yet
(a network file system, or a copy that has to be copied again) is read again until it has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from rdd.api import errors, names
from rdd.base.backoff import Backoff
from rdd.client import Client, Unreachable
from rdd.client.resources import CONFIG_MAPS
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.sharing.identity import digest
from rdd.host.errors import HostError
from rdd.instance import Instance
from rdd.runtime import ObjectKey
from rdd.runtime.informer import Informer

log = logging.getLogger("rdd.daemon")

CONFIG_MAP = "identity"
_KEY, _FIELD = ObjectKey(names.SYSTEM_NAMESPACE, CONFIG_MAP), "sha256"
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.2, 30.0
_WARN_AFTER = 5
"""Attempts before a directory without the announced identity is worth a warning."""


class IdentityFollower:
    """Announces the identity of this server, and adopts what others announce."""

    def __init__(
        self,
        client: Client,
        directory: Path,
        instance: Instance,
        use: Callable[[], Awaitable[None]],
    ) -> None:
        """`use` reads the directory and uses what it finds."""
        self._client = client
        self._directory = directory
        self._instance = instance
        self._use = use
        self._has_changed = True
        self._wake = asyncio.Event()
        self._announcements = Informer(client, CONFIG_MAPS, namespace=names.SYSTEM_NAMESPACE)
        self._announcements.add_handler(lambda change: self._woken(change.key))
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Announce the identity, and follow that of others."""
        create = asyncio.get_running_loop().create_task
        self._tasks = [
            create(self._announcements.run(), name="rdd-identity-watch"),
            create(self._run(), name="rdd-identity"),
        ]

    async def stop(self) -> None:
        """Stop following."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def announce(self) -> None:
        """Let the other servers read the directory again."""
        self._has_changed = True
        self._wake.set()

    def _woken(self, key: ObjectKey) -> None:
        if key == _KEY:
            self._wake.set()

    async def _run(self) -> None:
        await self._announcements.synced.wait()
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            self._wake.clear()
            try:
                is_current = await self._follow()
            except (HostError, ServiceError, errors.ApiError, Unreachable) as error:
                log.warning("the shared identity is not followed: %s", error)
                is_current = False
            if is_current:
                backoff.reset()
                await self._wake.wait()
                continue
            if backoff.failures == _WARN_AFTER:
                log.warning(
                    'the directory "%s" does not have the identity that another server uses; '
                    "copy it if it is not shared",
                    self._directory,
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), backoff.next_s())

    async def _follow(self) -> bool:
        """Announce a change or adopt one; return whether all servers have the same identity."""
        own = await asyncio.to_thread(digest, self._instance)
        if self._has_changed:
            await self._announce(own)
            self._has_changed = False
            return True
        announced = self._announced()
        if announced in ("", own):
            return True
        await self._use()
        return announced == await asyncio.to_thread(digest, self._instance)

    def _announced(self) -> str:
        found = self._announcements.get(_KEY) or {}
        return str((found.get("data") or {}).get(_FIELD) or "")

    async def _announce(self, own: str) -> None:
        if self._announced() == own:
            return
        body = {"data": {_FIELD: own}}
        try:
            await self._client.patch(
                CONFIG_MAPS, CONFIG_MAP, body, namespace=names.SYSTEM_NAMESPACE
            )
        except errors.NotFound:
            metadata = {"name": CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
            await self._client.create(CONFIG_MAPS, {"metadata": metadata, **body})
