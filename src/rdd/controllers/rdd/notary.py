# SPDX-License-Identifier: Apache-2.0
"""notary: records every value of a Notary in a ConfigMap.

    change_000: timestamp=2026-11-15T20:00:00Z,value=first
    change_001: timestamp=2026-11-15T20:00:07Z,value=second
    latest_change: timestamp=2026-11-15T20:00:07Z,value=second
    change_count: "1"

The ConfigMap is written before the status. If the process ends between the two writes, the
same entry is written again with its existing time, so the write is idempotent. The initial
recorded value is empty, so an empty first value is no change.
"""

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.crd import definition_of
from rdd.kinds.notary import Notary
from rdd.runtime import (
    CLEANUP,
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    add_finalizer,
    controller_of,
    delete_owned,
    is_controlled_by,
    is_deleting,
    patch_status,
    remove_finalizer,
    validating,
    watch,
    with_controller,
)

LONG = 24
"""Length of a value above which admission warns."""

_FOREIGN_RETRY_S = 60.0


def notary(env: ControllerEnvironment) -> Controller:
    """Return the controller of Notaries."""
    return Controller(
        "notary",
        NotaryReconciler,
        sources=(watch(Notary),),
        definitions=(definition_of(Notary),),
        webhooks=(
            validating("notary-validator", Notary, check, webhook_name=f"notary.{names.RDD_GROUP}"),
        ),
    )


async def check(request: AdmissionRequest[Notary]) -> None:
    """Reject values that start with "invalid"; warn about long ones."""
    value = request.object.spec.value
    if value.lower().startswith("invalid"):
        raise Denied(f"spec.value cannot start with 'invalid' (case-insensitive): \"{value}\"")
    if len(value) > LONG:
        request.warn(f"spec.value is longer than {LONG} characters ({len(value)} chars)")


class NotaryReconciler:
    """Records the value of a Notary when it differs from the last recorded one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._notaries = context.cache.of(Notary)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self._notaries.get(key)
        if found is None:
            return Result.done()
        client, events = self._context.client, self._context.events
        if is_deleting(found.raw):
            await delete_owned(client, found.raw)
            await remove_finalizer(client, Notary, found.raw, CLEANUP)
            return Result.done()
        obj = await add_finalizer(client, Notary, found.raw, CLEANUP)
        current = Notary.of(obj)
        events.event(obj, "Normal", "Reconcile", f"Reconciling Notary {key.name}")
        if current.spec.value == current.status.last_recorded_value:
            events.event(obj, "Normal", "NoChange", "The value has not changed")
            return Result.done()
        try:
            config_map = await self._config_map(current)
            if config_map is None:
                return Result.requeue(_FOREIGN_RETRY_S)
            await self._record(current, config_map)
        except errors.ApiError as error:
            name = current.spec.config_map_name
            events.event(obj, "Warning", "ConfigMapError", f'ConfigMap "{name}": {error}')
            raise
        await self._report(current)
        return Result.done()

    async def _config_map(self, current: Notary) -> Object | None:
        """Return the ConfigMap of a Notary, created if missing; None if it has another owner."""
        client = self._context.client
        name, namespace = current.spec.config_map_name, current.metadata.namespace
        try:
            present = await client.get(CONFIG_MAPS, name, namespace=namespace)
        except errors.NotFound:
            wanted = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {
                        names.APP_MANAGED_BY_LABEL: "notary-controller",
                        names.APP_INSTANCE_LABEL: current.metadata.name,
                    },
                }
            }
            return await client.create(CONFIG_MAPS, with_controller(wanted, current.raw))
        owner = controller_of(present)
        if owner is None or is_controlled_by(present, current.raw):
            return present
        self._context.events.event(
            current.raw,
            "Warning",
            "ConfigMapError",
            f'ConfigMap "{name}" is controlled by {owner["kind"]} {owner["name"]}',
        )
        return None

    async def _record(self, current: Notary, config_map: Object) -> None:
        number = current.status.change_count
        entry = f"change_{number:03d}"
        value = current.spec.value
        line = (config_map.get("data") or {}).get(entry, "")
        if line.partition(",")[2] != f"value={value}":
            line = f"timestamp={timestamps.now_text(self._context.clock)},value={value}"
        data = {entry: line, "latest_change": line, "change_count": str(number)}
        metadata = config_map["metadata"]
        await self._context.client.patch(
            CONFIG_MAPS, metadata["name"], {"data": data}, namespace=metadata["namespace"]
        )

    async def _report(self, current: Notary) -> None:
        client, events = self._context.client, self._context.events
        value, count = current.spec.value, current.status.change_count + 1
        status = current.status.replace(
            last_recorded_value=value, change_count=count, config_map_status="Updated"
        )
        try:
            await patch_status(client, Notary, current.raw, status.raw)
        except errors.Conflict:
            raise  # the Notary was written meanwhile: retried by the queue
        except errors.ApiError as error:
            events.event(current.raw, "Warning", "StatusUpdateError", str(error))
            raise
        events.event(
            current.raw, "Normal", "ValueRecorded", f'Recorded value "{value}" as change {count}'
        )
