# SPDX-License-Identifier: Apache-2.0
"""PUT: replace an object, or one of its subresources."""

from rdd.api import managedfields
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.verbs import metadata_update, writes


async def update(
    core: Core, request: Request, resource: Resource, *, subresource: str = ""
) -> AnyResponse:
    """Replace the object of the path with the one in the body."""
    info = request.info
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    opts = options.write_options(request, "UpdateOptions")
    decoded: list[Object] = []

    def decode() -> Object:
        obj = bodies.decode_object(request, resource, field_validation=opts.field_validation)
        meta = metadata_of(obj)
        writes.check_namespace(resource, info.namespace, meta)
        writes.check_name(info.name, meta)
        return obj

    size = len(request.body) + resource.strategy.work_bytes
    decoded.append(await offload.run(size, decode))

    async def build(entry: CacheEntry | None, old: Object | None) -> Object:
        obj = decoded.pop() if decoded else await offload.run(size, decode)
        meta = metadata_of(obj)
        # A precondition, which a missing object that would be created fails, too.
        uid = old["metadata"]["uid"] if old else ""
        metadata_update.check_uid(resource, write.namespace, write.name, meta.get("uid"), uid)
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
