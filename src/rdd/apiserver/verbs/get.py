# SPDX-License-Identifier: Apache-2.0
"""GET of one object: its encoded bytes from the cache."""

from rdd.api import errors
from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request, Response
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import quarantine
from rdd.apiserver.state.revisions import check_not_future

# "0" accepts any version; informers use it. The cache always has the newest.
_ANY_VERSION = {"resourceVersion": ["0"]}


async def get(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """Return the object of the path."""
    info = request.info
    entry = resource.cache.get(info.namespace if resource.namespaced else "", info.name)
    is_simple = not request.query or request.query == _ANY_VERSION
    if (
        entry is not None
        and is_simple
        and resource.converter is None
        and responses.is_plain(request)
    ):
        return Response(200, resource.full(entry) + b"\n")
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    if options.lenient_bool(request.query.get("export")):
        raise errors.BadRequest(
            "the export parameter, deprecated since v1.14, is no longer supported"
        )
    version = request.first("resourceVersion")
    if version and version != "0":
        check_not_future(core, version)
    if entry is None:
        raise quarantine.missing(resource, info.namespace if resource.namespaced else "", info.name)
    (entry,) = await resource.convert_entries([entry])
    return await responses.entry(core, request, resource, entry, negotiated)
