# SPDX-License-Identifier: Apache-2.0
"""Drain of external programs before the API stops.

A program watches the discovery ConfigMap for the shutdown of the control plane, and needs the
API to drain: it stops machines, writes statuses, releases leases. Last it deletes its
heartbeat; the daemon waits for a crashed program only until its heartbeat expires. Programs
without an entry in the ConfigMap get no notice of the shutdown and are not waited for.
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
    """Return when no program in the ConfigMap has a valid heartbeat."""
    found = await client.get(
        CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
    )
    managers = set(found.get("data") or ())
    heartbeats: dict[str, float] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                await _follow(client, managers, heartbeats, clock)
                if not _valid(heartbeats, clock):
                    return
    except TimeoutError:
        left = ", ".join(sorted(_valid(heartbeats, clock)))
        log.warning("stopping without waiting longer for %s", left)


async def _follow(
    client: Client,
    managers: set[str],
    heartbeats: dict[str, float],
    clock: Callable[[], float],
) -> None:
    """Update expiry times of heartbeats; return when none is valid, or one has expired."""
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
                        _update(
                            event.object, managers, heartbeats, is_deleted=event.type == "DELETED"
                        )
                    if not is_complete:
                        continue
                    valid = _valid(heartbeats, clock)
                    if not valid:
                        return
                    if event.type == "SYNCED":
                        log.info("waiting for %s", ", ".join(sorted(valid)))
                    left_s = min(heartbeats[name] for name in valid) - clock()
                    deadline.reschedule(asyncio.get_running_loop().time() + left_s)
        except TimeoutError:
            pass


def _update(
    lease: Object, managers: set[str], heartbeats: dict[str, float], *, is_deleted: bool
) -> None:
    full: str = lease["metadata"]["name"]
    name = full.removeprefix(names.MANAGER_LEASE_PREFIX)
    if name == full or name.rpartition("-")[0] not in managers:
        return
    if is_deleted:
        heartbeats.pop(name, None)
    else:
        heartbeats[name] = expires_at(lease)


def _valid(heartbeats: dict[str, float], clock: Callable[[], float]) -> set[str]:
    now = clock()
    return {name for name, end in heartbeats.items() if end > now}
