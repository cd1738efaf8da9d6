# SPDX-License-Identifier: Apache-2.0
"""The decoder of custom resources: the schema of the CRD version prunes the body.

As in Kubernetes, an object is read in the version that it names, even if the path serves another
one: its unknown members are reported by that schema before the version is rejected. An object of
another group or kind is not pruned; validation rejects it.
"""

from collections.abc import Callable
from typing import Any

from rdd.api import errors
from rdd.api.objectmeta import MetadataError, decode_object_meta
from rdd.api.types import Object
from rdd.apiserver.kinds import decoding, registered
from rdd.base import gotext, govalue
from rdd.schema.builtin.typed import DecodeError
from rdd.schema.embedded import coercion_error, has_embedded
from rdd.schema.node import Node, compile_node
from rdd.schema.prune import integral_floats, prune

_EMPTY = compile_node({"type": "object"})
_NIL = "accessor error: <nil> is of the type <nil>, expected string"


class CustomDecoder(decoding.BodyDecoder):
    """Decodes one version of a custom resource."""

    def __init__(self, kind: str, api_version: str, node_of: Callable[[str], Node | None]) -> None:
        super().__init__(kind, api_version)
        self._node_of = node_of
        """Returns the schema of a version; called for every body, because schemas are compiled
        on first use."""
        self._group = api_version.rpartition("/")[0]
        self._embeds: dict[int, bool] = {}

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Prune an object; its metadata must have the form of ObjectMeta."""
        return self._decode(obj, unknown, coerce=True)

    def decode_applied(self, new: Object, patch: Object) -> Object:
        """Decode the result of an apply; errors of embedded resources are left to validation."""
        return self._decode(new, [], coerce=False)

    def _decode(self, obj: Object, unknown: list[str], *, coerce: bool) -> Object:
        try:
            meta, strange = decode_object_meta(obj.get("metadata"))
        except MetadataError as error:
            raise self._error(obj, str(error)) from None
        obj["metadata"] = meta
        unknown += strange
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        if group == self._group and obj.get("kind") == self.kind:
            # Every field of a version that does not exist is unknown.
            node = self._node_of(version) or _EMPTY
            prune(node, obj, unknown=unknown)
            if coerce and self._has_embedded(node):
                wrong = coercion_error(node, obj)
                if wrong is not None:
                    raise self._error(obj, str(wrong))
        integral_floats(obj)
        return obj

    def _has_embedded(self, node: Node) -> bool:
        found = self._embeds.get(id(node))
        if found is None:
            found = self._embeds[id(node)] = has_embedded(node)
        return found

    def _error(self, obj: Object, cause: str) -> DecodeError:
        kind = obj.get("kind") or self.kind
        version = gotext.quote(str(obj.get("apiVersion") or "").rpartition("/")[2])
        text = f"{kind} in version {version} cannot be handled as a {kind}: {cause}"
        return DecodeError(text, cause=cause)

    def decode_protobuf(self, body: bytes) -> Any:
        """Reject protobuf: a message cannot be parsed without its field numbers."""
        raise decoding.unsupported_media_type()

    def check_type_meta(self, value: Object, raw: bytes) -> None:
        """Require a kind."""
        if not value.get("kind"):
            text = raw.decode("utf-8", "replace")
            raise errors.BadRequest(f"Object 'Kind' is missing in '{text}'")

    def check_kind(self, value: Object) -> None:
        """Require an apiVersion that is text; `check_version` compares it later."""
        if value.setdefault("apiVersion", "") is None:
            raise self._error(value, f".apiVersion {_NIL}")

    def check_version(self, obj: Object) -> None:
        """Reject another apiVersion; another kind fails the validation."""
        api_version = obj["apiVersion"]
        if api_version != self.api_version:
            raise errors.BadRequest(
                f"the API version in the data ({api_version}) does not match the expected "
                f"API version ({self.api_version})"
            )

    def decode_patched(
        self, new: Object, unknown: list[str], document: Callable[[], Any]
    ) -> Object:
        """Decode the result of a patch; failures are errors of the patch."""
        decoding.check_patched_type(new)
        if not new.get("kind"):
            text = govalue.json_text(new)
            raise decoding.invalid_patch(new, f"Object 'Kind' is missing in '{text}'")
        if not new.get("apiVersion"):
            if new.get("apiVersion", "") is None:
                raise decoding.invalid_patch(new, f".apiVersion {_NIL}")
            raise errors.InternalError.because(decoding.NO_API_VERSION)
        try:
            registered.parse(new["apiVersion"])
            return self.decode(new, unknown)
        except DecodeError as error:
            raise decoding.invalid_patch(new, str(error.cause)) from None
        except errors.BadRequest as error:
            raise decoding.invalid_patch(new, error.message) from None
