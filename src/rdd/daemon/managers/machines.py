# SPDX-License-Identifier: Apache-2.0
"""Machines that do not report: their objects get the condition MachineReachable=False.

On a shared store the daemon of a machine holds the Leases `controller-<name>.<machine>` and renews
a heartbeat. The server that runs the built-in controllers observes them. When no holder of a
machine's Leases has renewed for LEASE_S, the objects that carry the machine's label get the reason
`MachineUnreachable`; nothing else of them is touched, because only their own daemon can act on what
they stand for. When it reports again, the condition is removed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from rdd.api import errors, names, timestamps
from rdd.api.conditions import (
    Condition,
    conditions_of,
    remove_condition,
    set_condition,
)
from rdd.api.types import Object
from rdd.client import Client, Unreachable
from rdd.client.resources import LEASES
from rdd.daemon.managers.elected import LEASE_S
from rdd.kinds import catalog
from rdd.kinds.crd import definition_of
from rdd.runtime import ObjectKey, resource_of
from rdd.runtime.informer import Change, Informer
from rdd.runtime.status import update_status

log = logging.getLogger(__name__)

CONDITION, UNREACHABLE = "MachineReachable", "MachineUnreachable"
_CHECK_S = 1.0
_REPEAT_S = 15.0
"""Objects of an unreachable machine that were created since are found after this time."""


def kinds_with_conditions() -> Sequence[Any]:
    """Return the kinds of things of one machine whose status has conditions."""
    return [kind for kind in catalog.ALL if _is_bound(kind) and _has_conditions(kind)]


def _is_bound(kind: Any) -> bool:
    resource = resource_of(kind)
    if resource.group in names.MACHINE_GROUPS:
        return True
    return (resource.group, resource.plural) in names.MACHINE_RESOURCES


def _has_conditions(kind: Any) -> bool:
    schema = definition_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"].get("status") or {}
    return "conditions" in (status.get("properties") or {})


class MachineMonitor:
    """Reports machines whose daemons do not renew their Leases."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._leases = Informer(client, LEASES, namespace=names.SYSTEM_NAMESPACE)
        self._leases.add_handler(self._observe)
        self._seen: dict[str, float] = {}
        """Heartbeats by name: when this process saw the last change."""
        self._kinds = kinds_with_conditions()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to observe."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._leases.run(), name="rdd-machine-leases"),
            loop.create_task(self._run(), name="rdd-machines"),
        ]

    async def stop(self) -> None:
        """Stop observing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _observe(self, change: Change) -> None:
        if change.key.name.startswith(names.MANAGER_LEASE_PREFIX):
            if change.new is None:
                self._seen.pop(change.key.name, None)
            else:
                self._seen[change.key.name] = asyncio.get_running_loop().time()

    def _machines(self) -> dict[str, bool]:
        """Return all machines that ever reported, and whether they do now."""
        now = asyncio.get_running_loop().time()
        found: dict[str, bool] = {}
        for lease in self._leases.list(namespace=names.SYSTEM_NAMESPACE):
            name = lease["metadata"]["name"]
            _, dot, machine = name.partition(".")
            if not dot or not name.startswith(names.CONTROLLER_LEASE_PREFIX):
                continue
            holder = (lease.get("spec") or {}).get("holderIdentity") or ""
            seen = self._seen.get(f"{names.MANAGER_LEASE_PREFIX}{holder}")
            is_alive = seen is not None and now - seen <= LEASE_S
            found[machine] = found.get(machine, False) or is_alive
        return found

    async def _run(self) -> None:
        reported: dict[str, float | None] = {}
        """When a machine was reported as unreachable; None: as reachable."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_S)
            if not self._leases.has_synced:
                continue
            for machine, is_alive in self._machines().items():
                since = reported.get(machine)
                if is_alive:
                    is_due = since is not None or machine not in reported
                else:
                    is_due = since is None or loop.time() - since > _REPEAT_S
                if is_due and await self._report(machine, is_alive=is_alive):
                    reported[machine] = None if is_alive else loop.time()

    async def _report(self, machine: str, *, is_alive: bool) -> bool:
        """Write the condition of every object of a machine; return whether all were written."""
        try:
            for kind in self._kinds:
                with contextlib.suppress(errors.NotFound):  # the CRD is not installed
                    selector = f"{names.MACHINE_LABEL}={machine}"
                    found = await self._client.list(resource_of(kind), label_selector=selector)
                    for obj in found.items:
                        await self._write(kind, obj, machine, is_alive=is_alive)
            return True
        except (errors.ApiError, Unreachable) as error:
            log.warning('the state of the machine "%s" is not reported: %s', machine, error)
            return False

    async def _write(self, kind: Any, obj: Object, machine: str, *, is_alive: bool) -> None:
        condition = Condition(
            CONDITION,
            "False",
            UNREACHABLE,
            f'The daemon of the machine "{machine}" does not report; it acts on this object '
            "when it is started again",
        )

        def change(current: Object) -> Object:
            conditions = conditions_of(current)
            changed = (
                remove_condition(conditions, CONDITION)
                if is_alive
                else set_condition(conditions, condition, now=timestamps.now_text())
            )
            return {**(current.get("status") or {}), "conditions": changed}

        present = conditions_of(obj)
        is_reported = any(found.get("type") == CONDITION for found in present)
        if (is_alive and not is_reported) or (not is_alive and condition.is_in(present)):
            return
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace") or "", metadata["name"])
        # Invalid: its machine has not written a status yet that could carry the condition.
        with contextlib.suppress(errors.NotFound, errors.Invalid):
            await update_status(self._client, kind, key, change, known=obj)
