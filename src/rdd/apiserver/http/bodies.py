# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a request to an object of the resource it is for.

The order is Kubernetes': media type, syntax, kind and apiVersion, the shape of
the kind (types checked, unknown fields dropped), duplicate keys. What happens
to unknown and duplicate fields is the client's choice (`fieldValidation`):
refused, answered with warnings, or ignored.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rdd.api import errors, mediatypes
from rdd.api.decode import decode_json, decode_yaml, find_duplicate_keys, summarize
from rdd.api.types import Object
from rdd.api.yamlcodec import YamlDocument
from rdd.apiserver.http.request import Request
from rdd.apiserver.kinds.decoding import BodyDecoder, decode_protobuf, unsupported_media_type
from rdd.apiserver.resources import Resource, metadata_of
from rdd.base import gotext
from rdd.base.goformat import json_kind
from rdd.schema.builtin.typed import DecodeError

OFF_LOOP_BYTES = 32 * 1024
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def media_type(request: Request) -> str:
    """The media type of the body, JSON if the client does not say."""
    header = request.headers.get("Content-Type", "")
    return header.partition(";")[0].strip().lower() or mediatypes.JSON


def parse(
    request: Request, protobuf: Callable[[bytes], Any] = decode_protobuf
) -> tuple[Any, tuple[str, ...] | None]:
    """The body as JSON-like data, and complaints about repeated keys (None: not looked for yet).

    What is expected matters to protobuf only: it cannot be read without knowing the kind,
    so custom resources have no protobuf. BadRequest with Go's words if the body has no such
    form, DecodeError if it is a protobuf message that does not fit its kind.
    """
    media = media_type(request)
    if media == mediatypes.JSON:
        try:
            return decode_json(request.body), None
        except errors.BadRequest as error:
            raise errors.BadRequest(
                f"couldn't get version/kind; json parse error: {error.message}"
            ) from None
    if media == mediatypes.YAML:
        document = read_yaml(request)
        return document.value, document.duplicates
    if media == mediatypes.PROTOBUF:
        return protobuf(request.body), ()
    raise unsupported_media_type()


def read_yaml(request: Request) -> YamlDocument:
    """The body as a YAML document."""
    return request.document or decode_yaml(request.body)


async def prepare(request: Request) -> None:
    """Read a large YAML body in a thread: at 0.5 ms per kB it would hold up everybody else."""
    if len(request.body) < OFF_LOOP_BYTES or "yaml" not in media_type(request):
        return
    if request.body[:1] == b"{":
        return  # JSON, which is read at once
    try:
        request.document = await asyncio.to_thread(decode_yaml, request.body)
    except errors.BadRequest:
        return  # read again, and refused in the words of the request


def not_an_object(value: Any) -> str:
    """The complaint about a body that is no JSON object."""
    return (
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{json_kind(value)} into Go value of type {_TYPE_META}"
    )


def decode_object(request: Request, resource: Resource, *, field_validation: str = "") -> Object:
    """The object in the body of a create or update."""
    return decode_as(request, resource.decoder, field_validation=field_validation)


def decode_as(request: Request, decoder: BodyDecoder, *, field_validation: str = "") -> Object:
    """The object in a body, which must be of a certain kind."""
    try:
        value, repeated = parse(request, decoder.decode_protobuf)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise errors.BadRequest(not_an_object(value))
        for member in ("apiVersion", "kind"):
            if not isinstance(value.get(member), str | None):
                raise errors.BadRequest(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal "
                    f"{json_kind(value[member])} into Go struct field .{member} of type string"
                )
        decoder.check_type_meta(value, request.body)
    except DecodeError:
        raise
    except errors.BadRequest as error:
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {decoder.kind}): "
            f"{error.message} ({summarize(request.body)})"
        ) from None
    unknown: list[str] = []
    problems: list[str] = []
    if field_validation != "Ignore":
        # Before anything is added to the value: repeated keys are found by counting.
        problems = duplicates(request.body, value) if repeated is None else list(repeated)
    decoder.check_kind(value)
    sent = value.get("metadata")
    sent = sent.get("managedFields") if isinstance(sent, dict) else None
    obj = decoder.decode(value, unknown)
    keep_cleared(sent, obj)
    if field_validation != "Ignore":
        problems += [f"unknown field {gotext.quote(path)}" for path in unknown]
        if problems:
            report(problems, request, decoder, field_validation)
    return obj


def keep_cleared(sent: Any, obj: Object) -> None:
    """Decoding drops empty lists, but empty managedFields mean something: forget all owners."""
    if sent == []:
        metadata_of(obj)["managedFields"] = []


def duplicates(raw: bytes, value: Any) -> list[str]:
    """Complaints about keys that occur twice in a JSON text."""
    return [f"duplicate field {gotext.quote(p)}" for p in find_duplicate_keys(raw, value)]


def report(
    problems: list[str], request: Request, decoder: BodyDecoder, field_validation: str
) -> None:
    """Refuse (Strict) or warn about unknown and duplicate fields."""
    if field_validation == "Strict":
        kind, version = decoder.kind, decoder.api_version.rpartition("/")[2]
        raise errors.BadRequest(
            f"{kind} in version {gotext.quote(version)} cannot be handled "
            f"as a {kind}: strict decoding error: {', '.join(problems)}"
        )
    request.warnings += problems
