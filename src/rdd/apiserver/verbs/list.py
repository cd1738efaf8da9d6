# SPDX-License-Identifier: Apache-2.0
"""GET of a collection: list objects."""

from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, options, responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import listing, quarantine


async def list_(core: Core, request: Request, resource: Resource) -> AnyResponse:
    """List the objects of the collection."""
    negotiated = negotiation.negotiate(request, has_protobuf=resource.has_protobuf)
    opts = options.list_options(request, is_watch=False)
    page = await listing.select(core, request, resource, opts)
    quarantine.warn(request, resource, request.info.namespace)
    return await responses.page(core, request, resource, page, negotiated)
