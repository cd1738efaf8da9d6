# SPDX-License-Identifier: Apache-2.0
"""POST to a collection: create an object."""

from rdd.api import errors, managedfields
from rdd.apiserver import offload
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.resources import Resource, metadata_of
from rdd.apiserver.verbs import metadata_update, writes


async def create(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Create the object in the body."""
    namespace = request.info.namespace
    if resource.namespaced and not namespace:
        raise errors.MethodNotAllowed()
    if resource.is_terminating:
        raise errors.MethodNotAllowed(
            "create not allowed while custom resource definition is terminating",
            details={"group": resource.group, "kind": resource.plural},
        )
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    opts = options.write_options(request, "CreateOptions")
    obj = await offload.run(
        len(request.body) + resource.strategy.work_bytes,
        bodies.decode_object,
        request,
        resource,
        field_validation=opts.field_validation,
    )
    meta = metadata_of(obj)
    metadata_update.wipe_system_metadata(meta)
    writes.check_namespace(resource, namespace, meta)
    write = writes.Write(
        core,
        request,
        resource,
        opts,
        "CreateOptions",
        managedfields.manager_from(opts.field_manager, request.headers.get("User-Agent", "")),
        namespace,
        meta.get("name") or "",
    )
    written = await writes.insert(write, obj)
    return await responses.written(core, request, written, negotiated)
