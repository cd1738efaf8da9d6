# SPDX-License-Identifier: Apache-2.0
"""The deployment profile of a running control plane: what follows from a change of its file.

Admission and controllers read the file themselves. Here are the parts that must be notified: the
ceiling of the API server, the log, and the copy in the ConfigMap `profile` of `rdd-system`,
which informs clients and never decides anything. The copy of an earlier run is replaced before
the port is served.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.auth.ceiling import Ceiling
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS
from rdd.daemon.teardown import cancel
from rdd.profiles.current import CurrentProfile, watching

if TYPE_CHECKING:
    from rdd.profiles.rules import Rules

log = logging.getLogger("rdd.daemon")


def ceiling_of(rules: "Rules | None") -> Ceiling | None:
    """Return the limit of clients that a profile sets."""
    if rules is None or rules.ceiling is None:
        return None
    return Ceiling(rules.ceiling, str(rules.path))


class ProfileEnforcement:
    """Follows the profile of one control plane."""

    def __init__(
        self,
        profile: CurrentProfile,
        client: Client,
        set_ceiling: Callable[[Ceiling | None], None],
        *,
        writes_copy: bool,
    ) -> None:
        """`writes_copy` is False on a store that machines with other profiles share."""
        self._profile = profile
        self._client = client
        self._set_ceiling = set_ceiling
        self._writes_copy = writes_copy
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Apply the profile and follow its file."""
        rules = self._profile.rules()
        _report(rules)
        self._set_ceiling(ceiling_of(rules))
        await self._write_copy(rules)
        self._following = asyncio.create_task(self._follow(), name="rdd-profile")

    async def stop(self) -> None:
        """Stop following the file."""
        if self._following is not None:
            await cancel(self._following)

    async def _follow(self) -> None:
        with watching(self._profile.places, self._changed.set):
            while True:
                await self._changed.wait()
                self._changed.clear()
                # In a thread: a large file takes a while to read.
                rules = await asyncio.to_thread(self._profile.rules)
                _report(rules)
                self._set_ceiling(ceiling_of(rules))
                try:
                    await self._write_copy(rules)
                except errors.ApiError as error:
                    log.warning("cannot copy the deployment profile: %s", error)

    async def _write_copy(self, rules: "Rules | None") -> None:
        if not self._writes_copy:
            return
        name, namespace = names.PROFILE_CONFIG_MAP, names.SYSTEM_NAMESPACE
        try:
            await self._client.delete(CONFIG_MAPS, name, namespace=namespace)
        except errors.NotFound:
            pass
        if rules is None:
            return
        try:
            await self._client.create(CONFIG_MAPS, _copy_of(rules))
        except errors.NotFound:  # the namespace of a first start
            await self._create_namespace()
            await self._client.create(CONFIG_MAPS, _copy_of(rules))

    async def _create_namespace(self) -> None:
        from rdd.client.resources import NAMESPACES
        from rdd.daemon.managers.discovery import NAMESPACE

        try:
            await self._client.create(NAMESPACES, NAMESPACE)
        except errors.AlreadyExists:
            pass


def _copy_of(rules: "Rules") -> Object:
    from rdd.profiles.rules import BrokenProfile

    locks = {
        lock.name: {"value": lock.value, "source": f"{rules.path}:{lock.line}"}
        for lock in rules.locks
    }
    data = {
        "file": str(rules.path),
        "profile": rules.text,
        "locks": orjson.dumps(locks).decode(),
    }
    if isinstance(rules, BrokenProfile):
        data["problems"] = "".join(f"{problem}\n" for problem in rules.problems)
    return {
        "metadata": {"name": names.PROFILE_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE},
        "data": data,
    }


def _report(rules: "Rules | None") -> None:
    if rules is None:
        return
    from rdd.profiles.rules import BrokenProfile

    if isinstance(rules, BrokenProfile):
        for problem in rules.problems:
            log.error("deployment profile: %s", problem)
    else:
        log.info("the deployment profile %s applies", rules.path)
