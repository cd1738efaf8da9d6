# SPDX-License-Identifier: Apache-2.0
"""Decoders of request bodies, one per kind and version.

A `BodyDecoder` holds the steps of decoding that differ between typed (built-in) and custom kinds:
protobuf, the check of kind and apiVersion, the shape of the object, and the errors of a patched
object. The common steps are in `rdd.apiserver.http.bodies`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import apply, errors, fielderrors, mediatypes
from rdd.api.types import Object
from rdd.apiserver.kinds import registered
from rdd.base import goformat, gotext
from rdd.schema.builtin import typed

if TYPE_CHECKING:
    from rdd.schema.builtin.godecode import Examined

_ACCEPTED = f"{mediatypes.JSON}, {mediatypes.YAML}, {mediatypes.PROTOBUF}"
NO_API_VERSION = "Object 'apiVersion' is missing in 'object has no apiVersion field'"
"""The text of the error about an object whose kind cannot be determined."""
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"


class BodyDecoder(ABC):
    """Decodes bodies that must hold one kind in one version."""

    is_typed = False
    """Whether the kind has a Go type, whose decoder `examine` repeats."""

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

    def check_version(self, obj: Object) -> None:  # noqa: B027 - most kinds check it before
        """Raise BadRequest if a decoded object has an apiVersion that the path does not serve."""

    def examine(self, document: Any) -> "Examined":
        """Return what Go's decoder makes of a document; raise DecodeError if it fails."""
        raise NotImplementedError

    def decode_applied(self, new: Object, patch: Object) -> Object:
        """Decode the result of an apply."""
        return self.decode(new, [])

    @abstractmethod
    def decode_patched(
        self, new: Object, unknown: list[str], document: Callable[[], Any]
    ) -> Object:
        """Decode the result of a JSON or merge patch.

        `document` returns it as Kubernetes prints it, for errors that depend on the text.
        """

    def decode_merged(self, new: Object, patch: Object, unknown: list[str]) -> Object:
        """Decode the result of a strategic merge patch; only typed kinds support it."""
        raise NotImplementedError


class TypedDecoder(BodyDecoder):
    """Decodes a built-in kind."""

    is_typed = True
    can_clear_managers = True

    def __init__(self, kind: str, api_version: str, definition: str) -> None:
        super().__init__(kind, api_version)
        self._shape = typed.shape(definition)

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Check the types of all members and drop unknown ones."""
        return typed.decode_typed(self._shape, obj, unknown=unknown)

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
            api_version = registered.with_defaults(api_version, self.api_version)
            if (kind, api_version) != (self.kind, self.api_version):
                version = api_version.rpartition("/")[2]
                raise errors.BadRequest(
                    f"{kind} in version {gotext.quote(version)} cannot be handled as a "
                    f"{self.kind}: {self._other_kind(value, kind, api_version)}"
                )
        value["kind"], value["apiVersion"] = kind, api_version

    def examine(self, document: Any) -> "Examined":
        """Return what Go's decoder makes of a document; raise DecodeError if it fails."""
        from rdd.schema.builtin import godecode

        examined = godecode.examine(self._shape.struct.name, document)
        if examined.error:
            raise typed.decode_error(self._shape, examined.error)
        return examined

    def decode_applied(self, new: Object, patch: Object) -> Object:
        """Decode the result of an apply; as in Kubernetes, failures are server errors."""
        try:
            return self._decode_map(new, [])
        except ConversionFailed as error:
            raise errors.ApiError(
                f"failed to convert new object ({apply.describe(patch)}) to proper version: "
                "unable to convert unstructured object to "
                f"{apply.group_version_kind(patch)}: {error}"
            ) from None

    def decode_patched(
        self, new: Object, unknown: list[str], document: Callable[[], Any]
    ) -> Object:
        """Decode the result of a patch; failures are errors of the patch."""
        check_patched_type(new)
        kind, api_version = str(new.get("kind") or self.kind), str(new.get("apiVersion") or "")
        if not api_version:
            # Kubernetes decodes into its internal type then, which has none of the JSON members.
            unknown += sorted(new.keys() - {"kind", "apiVersion"})
            return {"kind": self.kind, "apiVersion": self.api_version, "metadata": {}}
        new["kind"] = kind
        if (kind, api_version) != (self.kind, self.api_version):
            raise invalid_patch(new, self._other_kind(new, kind, api_version))
        found: list[str] = []
        try:
            obj = self.decode(new, found)
            if found:
                unknown += self.examine(document()).unknown
            return obj
        except typed.DecodeError:
            try:
                self.examine(document())
            except typed.DecodeError as exact:
                error = exact
            # Kubernetes decodes the patched object with a decoder that has no target kind.
            raise invalid_patch(new, error.cause) from None

    def decode_merged(self, new: Object, patch: Object, unknown: list[str]) -> Object:
        """Decode the result of a strategic merge patch, which is converted and not printed."""
        new["kind"], new["apiVersion"] = self.kind, self.api_version
        found: list[str] = []
        try:
            obj = self._decode_map(new, found)
        except ConversionFailed as error:
            raise invalid_patch(new, str(error), text=goformat.plain(patch)) from None
        unknown += sorted(found, key=lambda path: f'{path}"')
        return obj

    def _decode_map(self, new: Object, unknown: list[str]) -> Object:
        try:
            return self.decode(new, unknown)
        except typed.DecodeError:
            from rdd.schema.builtin import goconvert

            try:
                return self.decode(goconvert.convert(self._shape.struct.name, new), unknown)
            except goconvert.ConvertError as error:
                raise ConversionFailed(str(error)) from None
            except typed.DecodeError as error:
                raise ConversionFailed(error.cause) from None

    def _other_kind(self, value: Object, kind: str, api_version: str) -> str:
        # Kubernetes decodes the body as the kind it declares, if that kind exists, and only then
        # fails to convert it.
        group = self.api_version.rpartition("/")[0]
        if not registered.is_registered(kind, api_version, group):
            return not_registered(kind, api_version)
        definition = registered.definition(kind, api_version)
        if definition:
            try:
                typed.decode_typed(typed.shape(definition), dict(value), unknown=[])
            except typed.DecodeError as error:
                return error.cause
        package = registered.internal_package(group)
        return f"converting (v1.{kind}) to ({package}.{self.kind}): unknown conversion"


class ConversionFailed(Exception):
    """A map that cannot be converted to its kind."""


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


def invalid_patch(new: Any, detail: str, *, text: str | None = None) -> errors.Invalid:
    """Return the error of a patch whose result cannot be decoded; `text` is shown in its place."""
    text = text if text is not None else orjson.dumps(new).decode()
    failure = errors.Invalid.of("", "", "", [fielderrors.invalid("patch", text, detail)])
    assert failure.details is not None
    failure.details.pop("kind", None)
    return failure


def check_patched_type(new: Object) -> None:
    """Raise Invalid if kind or apiVersion of a patched object are no text."""
    for member in ("apiVersion", "kind"):
        value = new.get(member)
        if value is not None and not isinstance(value, str):
            raise invalid_patch(
                new,
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{goformat.json_kind(value)} into Go struct field .{member} of type string",
            )


def not_registered(kind: str, api_version: str) -> str:
    """Return the text of the error about a kind that the scheme does not have."""
    version = api_version or "v1"
    return (
        f"no kind {gotext.quote(kind)} is registered for version {gotext.quote(version)} "
        f"in scheme {gotext.quote(_SCHEME)}"
    )
