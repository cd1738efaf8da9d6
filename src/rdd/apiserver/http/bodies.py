# SPDX-License-Identifier: Apache-2.0
"""Decoding of request bodies into objects.

The order is that of Kubernetes: media type, syntax, kind and apiVersion, the
schema of the kind (types are checked, unknown fields dropped), duplicate keys.
The client's `fieldValidation` decides whether unknown and duplicate fields are
errors, warnings, or ignored.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from rdd.api import errors, mediatypes
from rdd.api.decode import (
    decode_json,
    decode_yaml,
    find_duplicate_keys,
    parse_document,
    summarize,
)
from rdd.api.types import Object
from rdd.api.yamlcodec import YamlDocument
from rdd.apiserver.http.request import Request
from rdd.apiserver.kinds import registered
from rdd.apiserver.kinds.decoding import (
    NO_API_VERSION,
    BodyDecoder,
    decode_protobuf,
    unsupported_media_type,
)
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
    """Return the media type of the body; the default is JSON."""
    return exact_media_type(request).lower()


def exact_media_type(request: Request) -> str:
    """Return the media type of the body as it is written; types of patches are case-sensitive."""
    header = request.headers.get("Content-Type", "")
    return header.partition(";")[0].strip() or mediatypes.JSON


def parse(
    request: Request, protobuf: Callable[[bytes], Any] = decode_protobuf
) -> tuple[Any, tuple[str, ...] | None]:
    """Parse the body; return the value and errors about duplicate keys (None: not checked yet).

    Protobuf cannot be decoded without the kind, so custom resources do not support it. Raises
    BadRequest with Go's message if the syntax is wrong, DecodeError if a protobuf message does
    not match its kind.
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
    return request.document or decode_yaml(request.body)


async def prepare(request: Request) -> None:
    """Decode a large YAML body in a thread: at 0.5 ms per kB it would block the event loop."""
    if len(request.body) < OFF_LOOP_BYTES or "yaml" not in media_type(request):
        return
    if request.body[:1] == b"{":
        return  # JSON, which is fast to decode
    try:
        request.document = await asyncio.to_thread(decode_yaml, request.body)
    except errors.BadRequest:
        return  # decoded again later, where the error gets its context


def not_an_object(value: Any) -> str:
    """Return the error message for a body that is no JSON object."""
    return (
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{json_kind(value)} into Go value of type {_TYPE_META}"
    )


def decode_object(request: Request, resource: Resource, *, field_validation: str = "") -> Object:
    """Return the object in the body of a create or update."""
    return decode_as(request, resource.decoder, field_validation=field_validation)


def decode_as(request: Request, decoder: BodyDecoder, *, field_validation: str = "") -> Object:
    """Return the object in a body, decoded for one kind."""
    try:
        value, duplicated = parse(request, decoder.decode_protobuf)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise errors.BadRequest(not_an_object(value))
        # Before the value changes: duplicate keys are found by counting.
        repeated = find_duplicate_keys(request.body, value) if duplicated is None else []
        if repeated or not _is_plain_kind(value, decoder):
            _read_type_meta(request, value)
        decoder.check_type_meta(value, request.body)
    except DecodeError:
        raise
    except errors.BadRequest as error:
        raise _unrecognized(request, decoder, error) from None
    decoder.check_kind(value)
    sent = value.get("metadata")
    sent = sent.get("managedFields") if isinstance(sent, dict) else None
    obj, problems = _decode_value(request, value, decoder, repeated)
    if decoder.can_clear_managers:
        keep_cleared(sent, obj)
    if field_validation != "Ignore":
        problems = [*(duplicated or ()), *problems]
        if problems:
            report(problems, request, decoder, field_validation, obj)
    decoder.check_version(obj)
    return obj


def _unrecognized(
    request: Request, decoder: BodyDecoder, error: errors.BadRequest
) -> errors.BadRequest:
    return errors.BadRequest(
        f"the object provided is unrecognized (must be of type {decoder.kind}): "
        f"{error.message} ({summarize(request.body)})"
    )


def _is_plain_kind(value: Object, decoder: BodyDecoder) -> bool:
    kind, api_version = value.get("kind"), value.get("apiVersion")
    return (kind is None or kind == decoder.kind) and (
        api_version is None or api_version == decoder.api_version
    )


def _read_type_meta(request: Request, value: Object) -> None:
    """Set kind and apiVersion to those that Kubernetes finds; raise BadRequest for wrong ones."""
    document = _document(request, value)
    found = registered.type_meta(document.items() if isinstance(document, dict) else document)
    for member in ("kind", "apiVersion"):
        if member in value or member in found:
            value[member] = found.get(member, "")
    registered.parse(found.get("apiVersion", ""))


def _document(request: Request, value: Object) -> Any:
    """Return the body as Go's JSON decoder reads it; YAML is printed as sorted JSON before."""
    if media_type(request) != mediatypes.JSON:
        return sorted_members(value)
    return parse_document(request.body) or {}


def _decode_value(
    request: Request, value: Object, decoder: BodyDecoder, repeated: list[str]
) -> tuple[Object, list[str]]:
    """Return the object and the errors of strict decoding.

    Both depend on the text of the body if it has duplicate or unknown members or a value that
    does not fit, so the text is examined then.
    """
    problems = [f"duplicate field {gotext.quote(path)}" for path in repeated]
    unknown: list[str] = []
    if not (repeated and decoder.is_typed):
        try:
            obj = decoder.decode(value, unknown)
        except DecodeError:
            if decoder.is_typed:
                decoder.examine(_document(request, value))
            raise
        if not (unknown and decoder.is_typed):
            return obj, problems + [f"unknown field {gotext.quote(path)}" for path in unknown]
    if any(registered.is_type_meta(path) for path in unknown):
        try:
            _read_type_meta(request, value)
        except errors.BadRequest as error:
            raise _unrecognized(request, decoder, error) from None
        decoder.check_kind(value)
    examined = decoder.examine(_document(request, value))
    return decoder.decode(examined.value, []), examined.strict


def keep_cleared(sent: Any, obj: Object) -> None:
    """Restore empty managedFields: decoding drops them, but they mean "reset all owners"."""
    if sent == []:
        metadata_of(obj)["managedFields"] = []


def sorted_members(value: Any, kept: frozenset[int] = frozenset()) -> Any:
    """Return a JSON value as Go prints maps, with sorted members; `kept` are ids to leave."""
    if id(value) in kept:
        return value
    if isinstance(value, dict):
        return {name: sorted_members(value[name], kept) for name in sorted(value)}
    if isinstance(value, list):
        return [sorted_members(item, kept) for item in value]
    return value


def duplicates(raw: bytes, value: Any) -> list[str]:
    """Return errors about duplicate keys in a JSON text."""
    return [f"duplicate field {gotext.quote(p)}" for p in find_duplicate_keys(raw, value)]


def report(
    problems: list[str],
    request: Request,
    decoder: BodyDecoder,
    field_validation: str,
    obj: Mapping[str, Any] = {},
) -> None:
    """Raise (Strict) or warn about unknown and duplicate fields of `obj`."""
    if field_validation == "Strict":
        kind, api_version = (
            obj.get("kind", decoder.kind),
            obj.get("apiVersion", decoder.api_version),
        )
        if not api_version:
            raise errors.BadRequest(NO_API_VERSION)
        version = api_version.rpartition("/")[2]
        raise errors.BadRequest(
            f"{kind} in version {gotext.quote(version)} cannot be handled "
            f"as a {kind}: strict decoding error: {', '.join(problems)}"
        )
    request.warnings += problems
