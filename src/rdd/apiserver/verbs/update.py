# SPDX-License-Identifier: Apache-2.0
"""PUT: replace an object, or one of its subresources."""

from rdd.api import errors, managedfields
from rdd.api.types import Object
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state.cache import CacheEntry
from rdd.apiserver.verbs import writes


async def update(
    core: Core, request: Request, resource: Resource, *, subresource: str = ""
) -> AnyResponse:
    """Replace the object of the path with the one in the body."""
    info = request.info
    negotiated = negotiation.negotiate(request)
    opts = options.write_options(request, "UpdateOptions")
    decoded: list[Object] = []

    def decode() -> Object:
        obj = bodies.decode_object(request, resource, field_validation=opts.field_validation)
        meta = metadata_of(obj)
        writes.check_namespace(resource, info.namespace, meta)
        writes.check_name(info.name, meta)
        return obj

    decoded.append(decode())

    async def build(entry: CacheEntry | None, old: Object | None) -> Object:
        obj = decoded.pop() if decoded else decode()
        meta = metadata_of(obj)
        if entry is not None and old is not None:
            _check_uid(resource, entry, meta.get("uid"), old["metadata"]["uid"])
        return obj

    write = writes.Write(
        core,
        request,
        resource,
        opts,
        "UpdateOptions",
        managedfields.manager_from(opts.field_manager, request.headers.get("User-Agent", "")),
        info.namespace if resource.namespaced else "",
        info.name,
        subresource=subresource,
    )
    may_create = resource.strategy.allow_create_on_update and not subresource
    written = await writes.replace(write, build, may_create=may_create)
    return await responses.written(core, request, written, negotiated)


def _check_uid(resource: Resource, entry: CacheEntry, given: str | None, uid: str) -> None:
    if not given or given == uid:
        return
    key = resource.cache.key(entry.namespace, entry.name)
    raise errors.Conflict.of(
        resource.plural,
        resource.group,
        entry.name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, "
        f"UID in object meta: {uid}",
    )
