# SPDX-License-Identifier: Apache-2.0
"""Finalizers: added before a side effect that needs cleanup, removed after the cleanup.

A merge patch cannot merge lists, so the patch carries the resource version that it is based
on; on conflict the object is read again and the patch rebuilt. Finalizers of other writers
are kept.

    CLEANUP             the object's own controller has to clean up
    owned_by("App")     an App owns the object and alone removes this finalizer
"""

from collections.abc import Callable, Sequence

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.types import AnyResource, resource_of

_ATTEMPTS = 10


def owned_by(kind: str) -> str:
    """Return the finalizer of a child whose owner is of a kind."""
    return names.OWNED_BY_FINALIZER + kind


def owner_kind(obj: Object) -> str:
    """Return the kind in the owned-by finalizer; empty if the object has none."""
    for finalizer in finalizers_of(obj):
        if finalizer.startswith(names.OWNED_BY_FINALIZER):
            return finalizer[len(names.OWNED_BY_FINALIZER) :]
    return ""


def deletion_refusal(obj: Object) -> str:
    """Return why only its owner can delete an object; empty if every client can."""
    kind = owner_kind(obj)
    if not kind:
        return ""
    name = obj["metadata"]["name"]
    return f'cannot delete "{name}": owned by {kind}; delete the {kind} resource instead'


def finalizers_of(obj: Object) -> Sequence[str]:
    return obj["metadata"].get("finalizers") or ()


def is_deleting(obj: Object) -> bool:
    """Return whether an object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


async def add_finalizer(
    client: Client, resource: AnyResource, obj: Object, finalizer: str
) -> Object:
    """Add a finalizer and return the object.

    NotFound if the object does not exist; Conflict if it is being deleted, or if an owned-by
    finalizer is added to the object of another owner.
    """
    served = resource_of(resource)

    def change(present: Sequence[str], current: Object) -> list[str]:
        if is_deleting(current):
            raise _conflict(served, current, "it is being deleted, finalizers cannot be added")
        other = owner_kind(current)
        if (
            finalizer.startswith(names.OWNED_BY_FINALIZER)
            and other
            and owned_by(other) != finalizer
        ):
            raise _conflict(served, current, f"it is owned by {other}")
        return [*present, finalizer]

    if finalizer in finalizers_of(obj):
        return obj
    return await _change(client, served, obj, change)


async def remove_finalizer(
    client: Client, resource: AnyResource, obj: Object, finalizer: str
) -> Object | None:
    """Remove a finalizer and return the object; None if it no longer exists."""
    return await remove_finalizers(client, resource, obj, lambda name: name == finalizer)


async def remove_finalizers(
    client: Client, resource: AnyResource, obj: Object, which: Callable[[str], bool]
) -> Object | None:
    """Remove the selected finalizers and return the object; None if it no longer exists."""
    if not any(map(which, finalizers_of(obj))):
        return obj

    def change(present: Sequence[str], current: Object) -> list[str]:
        return [name for name in present if not which(name)]

    try:
        return await _change(client, resource_of(resource), obj, change)
    except errors.NotFound:
        return None


async def _change(
    client: Client,
    resource: ApiResource,
    obj: Object,
    change: Callable[[Sequence[str], Object], list[str]],
) -> Object:
    current, attempt = obj, 0
    uid = obj["metadata"].get("uid")
    while True:
        metadata = current["metadata"]
        if metadata.get("uid") != uid:
            # Another object of the same name; the original one was deleted.
            raise errors.NotFound.of(resource.plural, resource.group, metadata["name"])
        present = finalizers_of(current)
        wanted = list(dict.fromkeys(change(present, current)))
        if wanted == list(present):
            return current
        patch = {"metadata": {"finalizers": wanted, "resourceVersion": metadata["resourceVersion"]}}
        name, namespace = metadata["name"], metadata.get("namespace") or ""
        try:
            return await client.patch(resource, name, patch, namespace=namespace)
        except errors.Conflict as conflict:
            attempt += 1
            if attempt == _ATTEMPTS or is_stale_owner(conflict):
                raise
            current = await client.get(resource, name, namespace=namespace)


def is_stale_owner(error: errors.ApiError) -> bool:
    """Return whether a write was rejected because this process no longer owns the controller."""
    return error.has_cause(names.STALE_OWNER)


def _conflict(resource: ApiResource, obj: Object, why: str) -> errors.Conflict:
    return errors.Conflict.of(resource.plural, resource.group, obj["metadata"]["name"], why)
