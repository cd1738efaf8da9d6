# SPDX-License-Identifier: Apache-2.0
"""Decoders of request bodies, one per kind and version.

A `BodyDecoder` holds the steps of decoding that differ between typed (built-in) and custom kinds:
protobuf, the check of kind and apiVersion, the shape of the object, and the errors of a patched
object. The common steps are in `rdd.apiserver.http.bodies`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import orjson

from rdd.api import apply, errors, fielderrors, mediatypes
from rdd.api.types import Object
from rdd.base import gotext

_ACCEPTED = f"{mediatypes.JSON}, {mediatypes.YAML}, {mediatypes.PROTOBUF}"
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"


class BodyDecoder(ABC):
    """Decodes bodies that must hold one kind in one version."""

    can_clear_managers = False
    """Whether an empty list of managedFields resets all owners; Kubernetes drops that of custom
    resources."""

    def __init__(self, kind: str, api_version: str) -> None:
        self.kind = kind
        self.api_version = api_version

    @abstractmethod
    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Check and prune a parsed body; append the paths of unknown fields to `unknown`."""

    @abstractmethod
    def decode_protobuf(self, body: bytes) -> Any:
        """Parse a protobuf body; raise UnsupportedMediaType if the kind has no protobuf form."""

    @abstractmethod
    def check_type_meta(self, value: Object, raw: bytes) -> None:
        """Raise BadRequest if the kind requires members of TypeMeta that are missing."""

    @abstractmethod
    def check_kind(self, value: Object) -> None:
        """Default kind and apiVersion; raise BadRequest if they are not the expected ones."""

    def decode_applied(self, new: Object, patch: Object) -> Object:
        """Decode the result of an apply."""
        return self.decode(new, [])

    @abstractmethod
    def decode_patched(self, new: Object, unknown: list[str]) -> Object:
        """Decode the result of a patch."""


class TypedDecoder(BodyDecoder):
    """Decodes a built-in kind."""

    can_clear_managers = True

    def __init__(
        self, kind: str, api_version: str, decode: Callable[[Object, list[str]], Object]
    ) -> None:
        super().__init__(kind, api_version)
        self._decode = decode

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Check the types of all members and drop unknown ones."""
        return self._decode(obj, unknown)

    def decode_protobuf(self, body: bytes) -> Any:
        """Parse a protobuf body."""
        return decode_protobuf(body, kind=self.kind, api_version=self.api_version)

    def check_type_meta(self, value: Object, raw: bytes) -> None:
        """Accept a body without kind and apiVersion: the path determines them."""

    def check_kind(self, value: Object) -> None:
        """Default kind and apiVersion; reject every other kind."""
        kind = value.get("kind") or self.kind
        api_version = value.get("apiVersion") or self.api_version
        if (kind, api_version) != (self.kind, self.api_version):
            version = api_version.rpartition("/")[2]
            raise errors.BadRequest(
                f"{kind} in version {gotext.quote(version)} cannot be handled as a {self.kind}: "
                + _other_kind(value, kind, api_version, self.kind)
            )
        value["kind"], value["apiVersion"] = kind, api_version

    def decode_applied(self, new: Object, patch: Object) -> Object:
        """Decode the result of an apply; as in Kubernetes, failures are server errors."""
        try:
            return self._decode(new, [])
        except errors.BadRequest as error:
            raise errors.ApiError(
                f"failed to convert new object ({apply.describe(patch)}) to proper version: "
                "unable to convert unstructured object to "
                f"{apply.group_version_kind(patch)}: {_cause(error)}"
            ) from None

    def decode_patched(self, new: Object, unknown: list[str]) -> Object:
        """Decode the result of a patch; failures are errors of the patch."""
        kind, api_version = str(new.get("kind") or self.kind), str(new.get("apiVersion") or "")
        if not api_version:
            # Kubernetes decodes into its internal type then, which has none of the JSON members.
            unknown += sorted(new.keys() - {"kind", "apiVersion"})
            return {"kind": self.kind, "apiVersion": self.api_version, "metadata": {}}
        new["kind"] = kind
        if (kind, api_version) != (self.kind, self.api_version):
            raise invalid_patch(new, _other_kind(new, kind, api_version, self.kind))
        try:
            return self._decode(new, unknown)
        except errors.BadRequest as error:
            # Kubernetes decodes the patched object with a decoder that has no target kind.
            raise invalid_patch(new, _cause(error)) from None


def _cause(error: errors.BadRequest) -> str:
    text = error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
    return text or error.message


def decode_protobuf(body: bytes, *, kind: str = "", api_version: str = "") -> Any:
    """Parse a protobuf body; the expected kind is used if the body does not name one."""
    from rdd.schema.wire import protobuf

    return protobuf.decode(body, kind=kind, api_version=api_version)


def unsupported_media_type() -> errors.UnsupportedMediaType:
    """Return the error of a body in an unknown format."""
    return errors.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + _ACCEPTED
    )


def invalid_patch(new: Any, detail: str) -> errors.Invalid:
    """Return the error of a patch whose result cannot be decoded."""
    text = orjson.dumps(new).decode()
    failure = errors.Invalid.of("", "", "", [fielderrors.invalid("patch", text, detail)])
    assert failure.details is not None
    failure.details.pop("kind", None)
    return failure


def not_registered(kind: str, api_version: str) -> str:
    """Return the text of the error about a kind that the scheme does not have."""
    version = api_version or "v1"
    return (
        f"no kind {gotext.quote(kind)} is registered for version {gotext.quote(version)} "
        f"in scheme {gotext.quote(_SCHEME)}"
    )


def _other_kind(value: Object, kind: str, api_version: str, wanted: str) -> str:
    # Kubernetes decodes the body as the kind it declares, if that kind exists, and only then
    # fails to convert it.
    from rdd.apiserver.kinds.catalog import decoder, definition

    name = definition(api_version, kind)
    if not name:
        return not_registered(kind, api_version)
    try:
        decoder(name)(dict(value), [])
    except errors.BadRequest as error:
        return str(getattr(error, "cause", error.message))
    package = api_version.partition("/")[0].partition(".")[0] if "/" in api_version else "core"
    return f"converting (v1.{kind}) to ({package}.{wanted}): unknown conversion"
