# SPDX-License-Identifier: Apache-2.0
"""Shutdown notification: work outside of the daemon that must finish before it stops.

Whoever needs it, a controller in another process or a script, creates a ConfigMap in
`rdd-system` with the label `shutdown.rancherdesktop.io/notification: "true"`. At shutdown, with
the API still up, the daemon sets the annotation `shutdown.rancherdesktop.io/shutdown: pending`
on each and waits until all are `complete` or deleted, at most WAIT_S: a program that crashed
must not keep the daemon running. ConfigMaps of an earlier run are deleted at start, before a
client can create new ones.
"""

import asyncio
import logging
from contextlib import aclosing

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS

log = logging.getLogger("rdd.daemon")

WAIT_S = 20.0
_SELECTOR = f"{names.SHUTDOWN_NOTIFICATION}=true"
_PENDING, _COMPLETE = "pending", "complete"


async def delete_stale_notifications(client: Client) -> None:
    """Delete the ConfigMaps of an earlier run."""
    for name in await _names(client):
        try:
            await client.delete(CONFIG_MAPS, name, namespace=names.SYSTEM_NAMESPACE)
        except errors.NotFound:
            pass


async def notify_shutdown(client: Client, *, timeout_s: float = WAIT_S) -> None:
    """Announce the shutdown and wait until all that asked for it are complete."""
    patch = {"metadata": {"annotations": {names.SHUTDOWN: _PENDING}}}
    waiting = set()
    for name in await _names(client):
        try:
            await client.patch(CONFIG_MAPS, name, patch, namespace=names.SYSTEM_NAMESPACE)
            waiting.add(name)
        except errors.NotFound:
            pass
    if not waiting:
        return
    log.info("waiting for %s to complete the shutdown", ", ".join(sorted(waiting)))
    try:
        async with asyncio.timeout(timeout_s):
            await _until_complete(client, waiting)
    except TimeoutError:
        log.warning("stopping without waiting longer for %s", ", ".join(sorted(waiting)))


async def _names(client: Client) -> list[str]:
    found = await client.list(
        CONFIG_MAPS,
        namespace=names.SYSTEM_NAMESPACE,
        label_selector=_SELECTOR,
        metadata_only=True,
    )
    return [item["metadata"]["name"] for item in found.items]


async def _until_complete(client: Client, waiting: set[str]) -> None:
    """Remove completed and deleted ConfigMaps from `waiting`; return when none is left."""
    present: set[str] = set()
    events = client.list_and_watch(
        CONFIG_MAPS,
        namespace=names.SYSTEM_NAMESPACE,
        label_selector=_SELECTOR,
        metadata_only=True,
    )
    async with aclosing(events):
        async for event in events:
            if event.type == "RELIST":
                present.clear()
            elif event.type == "SYNCED":
                waiting &= present
            else:
                name = event.object["metadata"]["name"]
                present.add(name)
                if event.type == "DELETED" or _is_complete(event.object):
                    waiting.discard(name)
            if not waiting:
                return


def _is_complete(config_map: Object) -> bool:
    annotations = config_map["metadata"].get("annotations") or {}
    return bool(annotations.get(names.SHUTDOWN) == _COMPLETE)
