# SPDX-License-Identifier: Apache-2.0
"""GET of one object: its bytes, straight from the cache."""

from rdd.api import errors, gotext
from rdd.apiserver import respond
from rdd.apiserver.core import Core
from rdd.apiserver.request import Answer, Request, Response
from rdd.apiserver.resources import Resource


async def get(core: Core, request: Request, resource: Resource) -> Answer:
    """The object of the path."""
    info = request.info
    entry = resource.cache.get(info.namespace if resource.namespaced else "", info.name)
    is_local = resource.converter is None
    if entry is not None and is_local and not request.query and respond.is_plain(request):
        return Response(200, resource.full(entry) + b"\n")
    negotiated = respond.negotiated(request)
    version = request.first("resourceVersion")
    if version and version != "0":
        check_not_future(core, version)
    if entry is None:
        raise errors.NotFound.of(resource.plural, resource.group, info.name)
    (entry,) = await resource.localise([entry])
    return respond.entry(core, request, resource, entry, negotiated)


def parse_version(version: str) -> int:
    """A resourceVersion from a query; what is no number is the server's error, as upstream."""
    if not (version.isascii() and version.isdigit()):
        raise errors.ApiError(
            f"resourceVersion: Invalid value: {gotext.quote(version)}: strconv.ParseUint: "
            f"parsing {gotext.quote(version)}: invalid syntax",
            code=500,
            reason="",
        )
    return int(version)


def check_not_future(core: Core, version: str) -> int:
    """Refuse a resourceVersion that has not happened yet."""
    number = parse_version(version)
    if number > core.cache.revision:
        raise errors.Timeout(
            f"Timeout: Too large resource version: {number}, current: {core.cache.revision}",
            details={
                "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                ]
            },
            retry_after_s=1,
        )
    return number
