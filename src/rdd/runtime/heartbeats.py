# SPDX-License-Identifier: Apache-2.0
"""The signs of life of processes that own controllers: `rdd-system/manager-<identity>`.

A heartbeat is a Lease that its process renews; it is good until it is older than
its own duration says. Who wants to know whether a process lives waits for the next
renewal: a time that is not over yet proves nothing about a process that was killed.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import names, timestamps
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import LEASES


def heartbeat_name(identity: str) -> str:
    """The name of the Lease of a process."""
    return f"{names.MANAGER_LEASE_PREFIX}{identity}"


def end_of(heartbeat: Object, *, default_s: float = 0) -> float:
    """Until when a heartbeat is good; `default_s` for one that does not say how long."""
    spec = heartbeat.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed:
        return 0
    second, nano = timestamps.parse_micro(renewed)
    return float(second + nano / 1e9 + (spec.get("leaseDurationSeconds") or default_s))


async def shows_life(client: Client, identity: str, *, clock: Callable[[], float]) -> bool:
    """Whether a process renews its heartbeat before it has ended."""
    first: Object | None = None
    events = client.list_and_watch(
        LEASES,
        namespace=names.SYSTEM_NAMESPACE,
        field_selector=f"metadata.name={heartbeat_name(identity)}",
    )
    async with aclosing(events):
        try:
            async with asyncio.timeout(None) as deadline:
                async for event in events:
                    if event.type == "DELETED" or (event.type == "SYNCED" and first is None):
                        return False
                    if event.type not in ("ADDED", "MODIFIED"):
                        continue
                    if first is None:
                        first = event.object
                        left_s = max(end_of(first) - clock(), 0)
                        deadline.reschedule(asyncio.get_running_loop().time() + left_s)
                    elif event.object["spec"] != first["spec"]:
                        return True
        except TimeoutError:
            pass
    return False
