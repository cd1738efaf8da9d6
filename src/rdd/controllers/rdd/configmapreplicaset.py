# SPDX-License-Identifier: Apache-2.0
"""configmapreplicaset: keeps a number of equal ConfigMaps.

They are named `<name>-0` to `<name>-<replicas - 1>`. The controller compares names, not
numbers: a deleted ConfigMap is recreated with its own index. Existing ConfigMaps are not
changed, even when the data of the set changes. If some ConfigMaps cannot be created, the
condition `Ready` shows the reason; the others are created.
"""

from collections.abc import Sequence

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.configmapreplicaset import ConfigMapReplicaSet
from rdd.kinds.crd import definition_of
from rdd.runtime import (
    CLEANUP,
    Context,
    Controller,
    ObjectKey,
    Reason,
    ReasonTable,
    Result,
    StatusWriter,
    add_finalizer,
    controller_of,
    delete_owned,
    is_controlled_by,
    is_deleting,
    owns,
    remove_finalizer,
    watch,
    with_controller,
)
from rdd.runtime.conditions import FORWARDED

READY = "Ready"
REASONS = ReasonTable(
    Reason(READY, "True", "Complete", FORWARDED, "all ConfigMaps exist"),
    Reason(READY, "False", "Incomplete", FORWARDED, "some ConfigMaps do not exist yet"),
    Reason(READY, "False", "InvalidReplicas", FORWARDED, "spec.replicas is out of range"),
    Reason(READY, "False", "InvalidReplica", FORWARDED, "the server rejects the ConfigMaps"),
    Reason(READY, "False", "NameTaken", FORWARDED, "another ConfigMap has the name of a replica"),
)
MAX_REPLICAS = 10_000
BATCH = 100
"""Maximum number of ConfigMaps written in one reconciliation, so that other sets can proceed."""

_RETRY_S = 60.0
_BY_OWNER = "configmapreplicaset"
_MANAGER = "rdd-configmapreplicaset"
_SELECTOR = f"{names.APP_MANAGED_BY_LABEL}={_MANAGER}"


def configmapreplicaset(env: ControllerEnvironment) -> Controller:
    """Return the controller of ConfigMapReplicaSets."""
    return Controller(
        "configmapreplicaset",
        ReplicaSetReconciler,
        sources=(
            watch(ConfigMapReplicaSet),
            owns(CONFIG_MAPS, ConfigMapReplicaSet, label_selector=_SELECTOR),
        ),
        definitions=(definition_of(ConfigMapReplicaSet),),
    )


class ReplicaSetReconciler:
    """Creates missing ConfigMaps and deletes surplus ones."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._status = StatusWriter(context, ConfigMapReplicaSet)
        self._sets = context.cache.of(ConfigMapReplicaSet)
        self._config_maps = context.cache.informer(CONFIG_MAPS, label_selector=_SELECTOR)
        self._config_maps.add_index(_BY_OWNER, _controller_uid)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self._sets.get(key)
        if found is None:
            return Result.done()
        client = self._context.client
        if is_deleting(found.raw):
            await delete_owned(client, found.raw)
            await remove_finalizer(client, ConfigMapReplicaSet, found.raw, CLEANUP)
            return Result.done()
        owner = ConfigMapReplicaSet.of(
            await add_finalizer(client, ConfigMapReplicaSet, found.raw, CLEANUP)
        )
        ready = self._existing(owner)
        replicas = 1 if owner.spec.replicas is None else owner.spec.replicas
        if not 0 <= replicas <= MAX_REPLICAS:
            why = f"spec.replicas is {replicas}, not 0 to {MAX_REPLICAS}; nothing is changed"
            await self._report(owner, len(ready), 0, _Impossible("InvalidReplicas", why))
            return Result.done()
        surplus = sorted(index for index in ready if index >= replicas)
        for index in surplus[-BATCH:]:
            await self._delete(ready.pop(index))
        missing = [index for index in range(replicas) if index not in ready]
        created, problem = await self._create_some(owner, missing)
        present = sum(index < replicas for index in ready) + created
        await self._report(owner, present, replicas, problem)
        # The cache update for this batch triggers the next one.
        return Result.requeue(_RETRY_S) if problem else Result.done()

    async def _create_some(
        self, owner: ConfigMapReplicaSet, missing: Sequence[int]
    ) -> tuple[int, "_Impossible | None"]:
        """Create missing ConfigMaps; return how many exist now and the first problem."""
        created, problem = 0, None
        for index in missing:
            try:
                created += await self._create(owner, index)
            except _Impossible as impossible:
                problem = problem or impossible
                if impossible.is_of_all:
                    break
            if created == BATCH:
                break
        return created, problem

    def _existing(self, owner: ConfigMapReplicaSet) -> dict[int, Object]:
        prefix = f"{owner.metadata.name}-"
        found = {}
        for obj in self._config_maps.by_index(_BY_OWNER, owner.metadata.uid):
            number = obj["metadata"]["name"].removeprefix(prefix)
            if number.isdecimal() and str(int(number)) == number and not is_deleting(obj):
                found[int(number)] = obj
        return found

    async def _create(self, owner: ConfigMapReplicaSet, index: int) -> bool:
        """Return whether the ConfigMap of an index exists; False if an old one is terminating."""
        client = self._context.client
        metadata = owner.metadata
        name, namespace = f"{metadata.name}-{index}", metadata.namespace
        wanted = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {
                    names.APP_NAME_LABEL: "configmap",
                    names.APP_INSTANCE_LABEL: metadata.name,
                    names.APP_COMPONENT_LABEL: "controller",
                    names.APP_MANAGED_BY_LABEL: _MANAGER,
                },
            },
            "data": {**owner.spec.data, "index": str(index)},
        }
        try:
            await client.create(CONFIG_MAPS, with_controller(wanted, owner.raw))
            return True
        except errors.AlreadyExists:
            present = await client.get(CONFIG_MAPS, name, namespace=namespace)
            if is_controlled_by(present, owner.raw):
                return not is_deleting(present)
            raise _Impossible(
                "NameTaken", f'ConfigMap "{name}" exists and is not part of this set'
            ) from None
        except errors.Invalid as error:
            raise _Impossible("InvalidReplica", str(error), is_of_all=True) from error

    async def _delete(self, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            await self._context.client.delete(
                CONFIG_MAPS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except (errors.NotFound, errors.Conflict):
            pass  # already deleted, or replaced by another one of the same name

    async def _report(
        self, owner: ConfigMapReplicaSet, ready: int, wanted: int, problem: "_Impossible | None"
    ) -> None:
        if problem is not None:
            condition = REASONS.condition(READY, problem.reason, str(problem))
            self._context.events.event(owner.raw, "Warning", problem.reason, str(problem))
        else:
            reason = "Complete" if ready == wanted else "Incomplete"
            condition = REASONS.condition(READY, reason, f"{ready} of {wanted} ConfigMaps exist")
        await self._status.write(owner.raw, condition, members={"readyReplicas": ready})


class _Impossible(Exception):
    """A ConfigMap cannot be created; `reason` is for programs, the text for users."""

    def __init__(self, reason: str, message: str, *, is_of_all: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_of_all = is_of_all
        """Whether the problem concerns all ConfigMaps of the set."""


def _controller_uid(obj: Object) -> Sequence[str]:
    reference = controller_of(obj)
    return (reference["uid"],) if reference is not None else ()
