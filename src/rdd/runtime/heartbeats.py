# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of processes that own controllers: `rdd-system/manager-<identity>`.

A heartbeat is a Lease that its process renews; it is valid until it is older than its own
duration. Whether a process is alive shows in the next renewal: a heartbeat that has not
expired proves nothing about a process that was killed.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from rdd.api import names, timestamps
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import LEASES


def heartbeat_name(identity: str) -> str:
    """Return the name of the Lease of a process."""
    return f"{names.MANAGER_LEASE_PREFIX}{identity}"


def expires_at(heartbeat: Object, *, default_s: float = 0) -> float:
    """Return when a heartbeat expires; `default_s` is the duration of one that has none."""
    spec = heartbeat.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed:
        return 0
    second, nano = timestamps.parse_micro(renewed)
    return float(second + nano / 1e9 + (spec.get("leaseDurationSeconds") or default_s))


async def is_renewed(client: Client, identity: str, *, clock: Callable[[], float]) -> bool:
    """Return whether a process renews its heartbeat before it expires."""
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
                        left_s = max(expires_at(first) - clock(), 0)
                        deadline.reschedule(asyncio.get_running_loop().time() + left_s)
                    elif event.object["spec"] != first["spec"]:
                        return True
        except TimeoutError:
            pass
    return False
