# SPDX-License-Identifier: Apache-2.0
"""Letting external programs finish before the API goes away.

They see in the discovery ConfigMap that the control plane is about to stop, and need
the API for their own way out: machines are stopped, statuses written, leases given
back. The last thing such a program does is to remove its heartbeat; one that has
crashed is not waited for longer than its heartbeat is good for. Programs that are
not in the ConfigMap do not know that they should go, so nobody waits for them.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.runtime.heartbeats import expires_at

log = logging.getLogger("rdd.daemon")


async def wait_for_programs(
    client: Client, *, timeout_s: float, clock: Callable[[], float] = time.time
) -> None:
    """Return when no program that is in the ConfigMap has a good heartbeat."""
    found = await client.get(
        CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
    )
    managers = set(found.get("data") or ())
    heartbeats: dict[str, float] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                await _follow(client, managers, heartbeats, clock)
                if not _good(heartbeats, clock):
                    return
    except TimeoutError:
        left = ", ".join(sorted(_good(heartbeats, clock)))
        log.warning("stopping without waiting any longer for %s", left)


async def _follow(
    client: Client,
    managers: set[str],
    heartbeats: dict[str, float],
    clock: Callable[[], float],
) -> None:
    """Keep the ends of heartbeats up to date; return when none is good, or one has run out."""
    is_complete = False
    events = client.list_and_watch(LEASES, namespace=names.SYSTEM_NAMESPACE)
    async with aclosing(events):
        try:
            async with asyncio.timeout(None) as deadline:
                async for event in events:
                    if event.type == "RELIST":
                        is_complete = False
                        heartbeats.clear()
                    elif event.type == "SYNCED":
                        is_complete = True
                    else:
                        _note(event.object, managers, heartbeats, is_gone=event.type == "DELETED")
                    if not is_complete:
                        continue
                    good = _good(heartbeats, clock)
                    if not good:
                        return
                    if event.type == "SYNCED":
                        log.info("waiting for %s", ", ".join(sorted(good)))
                    left_s = min(heartbeats[name] for name in good) - clock()
                    deadline.reschedule(asyncio.get_running_loop().time() + left_s)
        except TimeoutError:
            pass


def _note(
    lease: Object, managers: set[str], heartbeats: dict[str, float], *, is_gone: bool
) -> None:
    full: str = lease["metadata"]["name"]
    name = full.removeprefix(names.MANAGER_LEASE_PREFIX)
    if name == full or name.rpartition("-")[0] not in managers:
        return
    if is_gone:
        heartbeats.pop(name, None)
    else:
        heartbeats[name] = expires_at(lease)


def _good(heartbeats: dict[str, float], clock: Callable[[], float]) -> set[str]:
    now = clock()
    return {name for name, end in heartbeats.items() if end > now}
