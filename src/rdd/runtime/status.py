# SPDX-License-Identifier: Apache-2.0
"""Writing the status of an object.

Three ways, by who else writes it:

    patch_status    one writer: the difference to what was read, under an
                    optimistic lock; Conflict if the object has moved on
    update_status   several writers: read, change, write, and again on conflict
    apply_status    each writer owns its part: server-side apply
"""

from collections.abc import Callable

from rdd.api import errors
from rdd.api.mergepatch import create_merge_patch
from rdd.client import Client
from rdd.runtime.finalizers import is_stale_owner
from rdd.runtime.types import AnyResource, Object, ObjectKey, resource_of

_ATTEMPTS = 20


async def patch_status(
    client: Client,
    resource: AnyResource,
    obj: Object,
    status: Object,
    *,
    is_locked: bool = True,
) -> Object:
    """The object with a new status; nothing is sent if it has that already.

    `is_locked` makes it a Conflict if anybody has written the object since it was read.
    """
    difference = create_merge_patch(obj.get("status") or {}, status)
    if not difference and "status" in obj:
        return obj
    patch: Object = {"status": difference}
    metadata = obj["metadata"]
    if is_locked:
        patch["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
    return await client.patch(
        resource_of(resource),
        metadata["name"],
        patch,
        namespace=metadata.get("namespace") or "",
        subresource="status",
    )


async def update_status(
    client: Client,
    resource: AnyResource,
    key: ObjectKey,
    change: Callable[[Object], Object],
    *,
    known: Object | None = None,
) -> Object:
    """Write the status that `change` makes of the present object, until nobody interferes.

    `change` MUST NOT change its argument; it may be called several times.
    `known` saves the first read. NotFound if the object is gone.
    """
    served = resource_of(resource)
    attempt = 0
    while True:
        obj = known or await client.get(served, key.name, namespace=key.namespace)
        known = None
        try:
            return await patch_status(client, served, obj, change(obj))
        except errors.Conflict as conflict:
            attempt += 1
            if attempt == _ATTEMPTS or is_stale_owner(conflict):
                raise


async def apply_status(
    client: Client,
    resource: AnyResource,
    key: ObjectKey,
    status: Object,
    *,
    field_manager: str,
    force: bool = True,
) -> Object:
    """Have this manager's part of the status be exactly what is given."""
    served = resource_of(resource)
    metadata = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return await client.apply(
        served,
        {"metadata": metadata, "status": status},
        field_manager=field_manager,
        force=force,
        subresource="status",
    )
