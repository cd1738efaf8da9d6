# SPDX-License-Identifier: Apache-2.0
"""Finalizers: added before anything is made that must be undone, removed when it is.

A list cannot be merged, so a patch carries the resource version it was made
for; if somebody else has written the object meanwhile, it is read again and the
patch made anew. What others have in the list stays.

    CLEANUP             the object's own controller has to clean up
    owned_by("App")     the object is controlled by an App, which alone removes this
"""

from collections.abc import Callable, Sequence

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.types import AnyResource, resource_of

_ATTEMPTS = 10


def owned_by(kind: str) -> str:
    """The finalizer of a child whose owner is of a kind."""
    return names.OWNED_BY_FINALIZER + kind


def owner_kind(obj: Object) -> str:
    """The kind named by an owned-by finalizer; empty if the object has none."""
    for finalizer in finalizers_of(obj):
        if finalizer.startswith(names.OWNED_BY_FINALIZER):
            return finalizer[len(names.OWNED_BY_FINALIZER) :]
    return ""


def deletion_refusal(obj: Object) -> str:
    """Why an owned object cannot be deleted by others than its owner; empty if it can."""
    kind = owner_kind(obj)
    if not kind:
        return ""
    name = obj["metadata"]["name"]
    return f'cannot delete "{name}": owned by {kind}; delete the {kind} resource instead'


def finalizers_of(obj: Object) -> Sequence[str]:
    """The finalizers of an object."""
    return obj["metadata"].get("finalizers") or ()


def is_deleting(obj: Object) -> bool:
    """Whether the deletion of an object was asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


async def add_finalizer(
    client: Client, resource: AnyResource, obj: Object, finalizer: str
) -> Object:
    """The object with the finalizer. NotFound if it is gone, Conflict if it is being deleted.

    Adding an owned-by finalizer to the object of another owner is a Conflict, too.
    """
    served = resource_of(resource)

    def change(present: Sequence[str], current: Object) -> list[str]:
        if is_deleting(current):
            raise _refusal(served, current, "it is being deleted, finalizers cannot be added")
        other = owner_kind(current)
        if (
            finalizer.startswith(names.OWNED_BY_FINALIZER)
            and other
            and owned_by(other) != finalizer
        ):
            raise _refusal(served, current, f"it is owned by {other}")
        return [*present, finalizer]

    if finalizer in finalizers_of(obj):
        return obj
    return await _change(client, served, obj, change)


async def remove_finalizer(
    client: Client, resource: AnyResource, obj: Object, finalizer: str
) -> Object | None:
    """The object without the finalizer; None if it is gone (perhaps because of this)."""
    return await remove_finalizers(client, resource, obj, lambda name: name == finalizer)


async def remove_finalizers(
    client: Client, resource: AnyResource, obj: Object, which: Callable[[str], bool]
) -> Object | None:
    """The object without the finalizers that are selected; None if it is gone."""
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
            # Another object of the same name: this one is gone.
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
    """Whether a write was refused because this process no longer owns the controller."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == names.STALE_OWNER for cause in causes)


def _refusal(resource: ApiResource, obj: Object, why: str) -> errors.Conflict:
    return errors.Conflict.of(resource.plural, resource.group, obj["metadata"]["name"], why)
