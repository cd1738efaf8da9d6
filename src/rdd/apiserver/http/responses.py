# SPDX-License-Identifier: Apache-2.0
"""Responses: objects and lists in the negotiated representation.

In the common case, JSON of the whole object, the bytes exist already. Lists of
more than a megabyte are streamed in chunks with a known length: the client
gets the first bytes early, memory stays flat and other requests run between
two chunks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from rdd.api import errors, mediatypes, names, yamlcodec
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.components import Core
from rdd.apiserver.http import negotiation, tables
from rdd.apiserver.http.negotiation import ResponseFormat
from rdd.apiserver.http.request import AnyResponse, Request, Response, ResponseWriter, Stream
from rdd.apiserver.resources import Resource
from rdd.apiserver.state import codec
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.state.listing import ListPage
from rdd.apiserver.verbs.writes import Written
from rdd.base import gotext

MIN_STREAM_BYTES = 1024 * 1024
CHUNK_BYTES = 256 * 1024


def is_plain(request: Request) -> bool:
    """Return whether the response is compact JSON (the fast path)."""
    fmt = negotiation.negotiate(request)
    return fmt is negotiation.PLAIN and not negotiation.is_pretty(request)


def value(request: Request, obj: Any, *, status: int = 200, media: str = "") -> Response:
    """Respond with any JSON value: Status objects, reviews, discovery documents."""
    media = media or negotiation.status_media(request)
    if media == mediatypes.YAML:
        return Response(status, yamlcodec.encode_yaml(obj), content_type=mediatypes.YAML)
    if media == mediatypes.PROTOBUF:
        from rdd.schema.wire import protobuf_encoding

        message = protobuf_encoding.encode(obj)
        if message is not None:
            return Response(status, message, content_type=mediatypes.PROTOBUF)
    if negotiation.is_pretty(request):
        return Response(status, orjson.dumps(obj, option=orjson.OPT_INDENT_2))
    return Response(status, codec.dumps(obj))


async def entry(
    core: Core,
    request: Request,
    resource: Resource,
    found: CacheEntry,
    fmt: ResponseFormat,
    *,
    status: int = 200,
) -> Response:
    """Respond with one object; one that is large and not plain JSON is rendered in a thread."""
    if fmt.is_plain and not negotiation.is_pretty(request):
        return Response(status, resource.full(found) + b"\n")
    now = core.clock()
    return await offload.run(
        len(found.body), _entry, request, resource, found, fmt, status=status, now=now
    )


def _entry(
    request: Request,
    resource: Resource,
    found: CacheEntry,
    fmt: ResponseFormat,
    *,
    status: int,
    now: float,
) -> Response:
    if not fmt.transform:
        return value(request, resource.object(found), status=status, media=fmt.media)
    if fmt.transform == "Table":
        table = tables.table(
            resource,
            [resource.object(found)],
            now=now,
            include_object=_include_object(request),
            version=fmt.version,
            revision=str(found.revision or ""),
        )
        return value(request, table, status=status, media=fmt.media)
    if fmt.transform != "PartialObjectMetadata":
        raise errors.NotAcceptable(
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            f"({resource.go_type(is_list=False)})"
        )
    return value(
        request, partial(resource.object(found), fmt.version), status=status, media=fmt.media
    )


def partial(obj: Object, version: str = "v1") -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{names.META_GROUP}/{version}",
        "metadata": obj["metadata"],
    }


async def written(core: Core, request: Request, outcome: Written, fmt: ResponseFormat) -> Response:
    """Respond with the object that a write has stored."""
    status = 201 if outcome.created else 200
    resource = outcome.resource
    is_local = resource.from_storage is None and resource.converter is None
    if fmt.is_plain and is_local and not negotiation.is_pretty(request):
        return Response(status, resource.head + outcome.body + b"\n")
    obj = await offload.run(len(outcome.body), codec.decode, outcome.body)
    meta = obj["metadata"]
    revision = int(meta.get("resourceVersion") or 0)
    if not revision and not fmt.transform:
        # A dry run of a create has no resourceVersion, in any representation.
        full = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
        if resource.from_storage is not None:
            full = {**resource.from_storage(full), "kind": resource.kind}
            full["apiVersion"] = resource.api_version
        return value(request, full, status=status, media=fmt.media)
    found = CacheEntry(meta.get("namespace", ""), meta["name"], revision, outcome.body)
    (found,) = await resource.convert_entries([found])
    return await entry(core, request, resource, found, fmt, status=status)


async def page(
    core: Core, request: Request, resource: Resource, found: ListPage, fmt: ResponseFormat
) -> AnyResponse:
    """Respond with a list; one that is large and not plain JSON is rendered in a thread."""
    if fmt.is_plain and not negotiation.is_pretty(request):
        return _plain_page(resource, found)
    size, now = sum(len(e.body) for e in found.entries), core.clock()
    return await offload.run(size, _page, request, resource, found, fmt, now=now)


def _page(
    request: Request, resource: Resource, found: ListPage, fmt: ResponseFormat, *, now: float
) -> AnyResponse:
    meta: dict[str, Any] = {"resourceVersion": str(found.revision)}
    if found.continue_:
        meta["continue"] = found.continue_
    if found.remaining:
        meta["remainingItemCount"] = found.remaining
    if fmt.transform == "Table":
        table = tables.table(
            resource,
            [resource.object(e) for e in found.entries],
            now=now,
            include_object=_include_object(request),
            version=fmt.version,
            revision=str(found.revision),
            continue_=found.continue_,
            remaining=found.remaining,
        )
        return value(request, table, media=fmt.media)
    if fmt.transform == "PartialObjectMetadata":
        raise errors.NotAcceptable(
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"({resource.go_type(is_list=True)})"
        )
    if fmt.transform:
        items = [partial(resource.object(e), fmt.version) for e in found.entries]
        return value(
            request,
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"{names.META_GROUP}/{fmt.version}",
                "metadata": meta,
                "items": items or None,  # as Go prints a list that nothing was appended to
            },
            media=fmt.media,
        )
    raw = b"".join(_chunks(resource, found))
    return value(request, orjson.loads(raw), media=fmt.media)


def _plain_page(resource: Resource, found: ListPage) -> AnyResponse:
    size = sum(len(e.body) for e in found.entries) if resource.from_storage is None else 0
    if size < MIN_STREAM_BYTES:
        return Response(200, b"".join(_chunks(resource, found)))
    items = len(found.entries)
    length = size + items * (len(resource.item_head) + 1) - 1
    length += len(list_head(resource, found)) + len(_LIST_END)

    async def produce(writer: ResponseWriter) -> None:
        for chunk in _chunks(resource, found):
            await writer.write(chunk)

    return Stream(produce, length=length)


_LIST_END = b"]}\n"


def list_head(resource: Resource, found: ListPage) -> bytes:
    """Return the bytes before the items of a list."""
    meta = resource.list_metadata(found.revision, found.continue_, found.remaining)
    head = codec.head(resource.list_kind, resource.api_version)
    return b'%b"metadata":%b,"items":[' % (head, orjson.dumps(meta))


def _chunks(resource: Resource, found: ListPage) -> Iterator[bytes]:
    """Yield a list in chunks of a few hundred kilobytes."""
    yield list_head(resource, found)
    entries = found.entries
    if resource.from_storage is None:
        yield from _joined(entries, resource.item_head)
    else:
        render: Callable[[CacheEntry], bytes] = resource.item
        for i, e in enumerate(entries):
            yield (b"," if i else b"") + render(e)
    yield _LIST_END


def _joined(entries: list[CacheEntry], item_head: bytes) -> Iterator[bytes]:
    separator = b"," + item_head
    first, size = 0, 0
    for i, e in enumerate(entries):
        size += len(e.body)
        if size >= CHUNK_BYTES or i + 1 == len(entries):
            start = separator if first else item_head
            yield start + separator.join([e.body for e in entries[first : i + 1]])
            first, size = i + 1, 0


def _include_object(request: Request) -> str:
    given = request.first("includeObject")
    if given not in ("", "None", "Metadata", "Object"):
        raise errors.BadRequest(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"{gotext.quote(given)}: must be 'Metadata', 'Object', 'None', or empty"
        )
    return given or "Metadata"


def error(request: Request, failure: errors.ApiError) -> Response:
    """Respond with the Status of a failure."""
    response = value(request, failure.to_status(), status=failure.code)
    if failure.retry_after_s:
        response.headers = [("Retry-After", str(failure.retry_after_s))]
    return response
