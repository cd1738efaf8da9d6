# SPDX-License-Identifier: Apache-2.0
"""GET of a collection: list objects."""

from rdd.apiserver.core import Core
from rdd.apiserver.http import options
from rdd.apiserver.http import responses as respond
from rdd.apiserver.http.request import Answer, Request
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import listing


async def list_(core: Core, request: Request, resource: Resource) -> Answer:
    """The objects of the collection."""
    negotiated = respond.negotiated(request)
    opts = options.list_options(request, is_watch=False)
    page = await listing.select(core, request, resource, opts)
    return respond.page(core, request, resource, page, negotiated)
