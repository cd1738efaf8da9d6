# SPDX-License-Identifier: Apache-2.0
"""Owner references, and the deletion of owned objects.

Invariant: an object has at most one controlling owner. References do not cross namespaces:
an owner is cluster-scoped or in the namespace of its child.
"""

import logging

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.finalizers import remove_finalizers

log = logging.getLogger("rdd.runtime")

_VERBS = frozenset({"list", "delete", "patch"})


class AlreadyOwned(ValueError):
    """The object has another controlling owner."""


def owner_reference(owner: Object, *, is_controller: bool = True, block: bool = True) -> Object:
    """Return the reference to an owner; `block`: foreground deletion waits for the child."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": is_controller,
        "blockOwnerDeletion": block,
    }


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the controlling owner, or None."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    """Return whether the owner with this uid controls the object."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def with_controller(obj: Object, owner: Object) -> Object:
    """Return a copy of an object that is controlled by an owner.

    Raises AlreadyOwned if another object controls it, ValueError if the owner is in another
    namespace.
    """
    metadata = obj["metadata"]
    namespace = owner["metadata"].get("namespace")
    if namespace and namespace != metadata.get("namespace"):
        raise ValueError(
            f"{owner['kind']} {namespace}/{owner['metadata']['name']} cannot own an object "
            f"in {metadata.get('namespace') or 'no namespace'}"
        )
    wanted = owner_reference(owner)
    present = controller_of(obj)
    if present is not None and present["uid"] != wanted["uid"]:
        raise AlreadyOwned(
            f"{obj.get('kind', 'object')} {metadata.get('name')} is already controlled by "
            f"{present['kind']} {present['name']}"
        )
    others = [r for r in metadata.get("ownerReferences") or () if r["uid"] != wanted["uid"]]
    return {**obj, "metadata": {**metadata, "ownerReferences": [*others, wanted]}}


async def delete_owned(client: Client, owner: Object, *, namespace: str = "") -> int:
    """Delete all objects in a namespace that an owner owns; return their number.

    The namespace is the owner's; for a cluster-scoped owner it is `namespace`, or its
    `spec.namespace`, or `default`. Owned-by finalizers of the children are removed first. All
    deletions are attempted; failures are raised together at the end, so that an incomplete
    cleanup is never mistaken for a complete one.
    """
    spec = owner.get("spec") or {}
    where = (
        owner["metadata"].get("namespace")
        or namespace
        or spec.get("namespace")
        or names.DEFAULT_NAMESPACE
    )
    uid = owner["metadata"]["uid"]
    count, failures = 0, []
    resources = (await client.discover()).preferred().values()
    for resource in resources:
        if not resource.namespaced or not _VERBS.issubset(resource.verbs):
            continue
        try:
            found = await client.list(resource, namespace=where, metadata_only=True)
        except errors.NotFound:
            continue  # its definition was deleted meanwhile, and its objects with it
        except errors.ApiError as error:
            failures.append(error)
            continue
        for obj in found.items:
            if any(r["uid"] == uid for r in obj["metadata"].get("ownerReferences") or ()):
                try:
                    await _delete(client, resource, obj)
                    count += 1
                except errors.ApiError as error:
                    failures.append(error)
    if failures:
        raise ExceptionGroup(f"objects owned by {owner['kind']} {owner['metadata']['name']}",
                             failures)  # fmt: skip
    return count


async def _delete(client: Client, resource: ApiResource, obj: Object) -> None:
    kept = await remove_finalizers(
        client, resource, obj, lambda name: name.startswith(names.OWNED_BY_FINALIZER)
    )
    if kept is None or kept["metadata"].get("deletionTimestamp"):
        return
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or ""
    try:
        await client.delete(resource, metadata["name"], namespace=namespace, uid=metadata["uid"])
    except errors.NotFound:
        pass
