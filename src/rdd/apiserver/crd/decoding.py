# SPDX-License-Identifier: Apache-2.0
"""The decoder of custom resources: the schema of the CRD version prunes the body."""

from collections.abc import Callable
from typing import Any

from rdd.api import errors
from rdd.api.objectmeta import MetadataError, decode_object_meta
from rdd.api.types import Object
from rdd.apiserver.kinds import decoding
from rdd.base import goformat
from rdd.schema.builtin.typed import DecodeError
from rdd.schema.node import Node, compile_node
from rdd.schema.prune import integral_floats, prune

_EMPTY = compile_node({"type": "object"})


class CustomDecoder(decoding.BodyDecoder):
    """Decodes one version of a custom resource."""

    def __init__(self, kind: str, api_version: str, node: Callable[[], Node]) -> None:
        super().__init__(kind, api_version)
        self._node = node
        """Returns the schema; called for every body, because schemas are compiled on first use."""

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Prune an object; its metadata must have the form of ObjectMeta."""
        try:
            meta, strange = decode_object_meta(obj.get("metadata"))
        except MetadataError as error:
            version = self.api_version.rpartition("/")[2]
            text = f'{self.kind} in version "{version}" cannot be handled as a '
            raise DecodeError(f"{text}{self.kind}: {error}", cause=str(error)) from None
        obj["metadata"] = meta
        unknown += strange
        if obj.get("apiVersion") == self.api_version:
            prune(self._node(), obj, unknown=unknown)
        elif str(obj.get("apiVersion")).rpartition("/")[0] == self.api_version.rpartition("/")[0]:
            # A patch may name a version that does not exist; every field of that one is unknown.
            # One of another group is not pruned; validation rejects it.
            prune(_EMPTY, obj, unknown=unknown)
        integral_floats(obj)
        return obj

    def decode_protobuf(self, body: bytes) -> Any:
        """Reject protobuf: a message cannot be parsed without its field numbers."""
        raise decoding.unsupported_media_type()

    def check_type_meta(self, value: Object, raw: bytes) -> None:
        """Require kind and apiVersion."""
        for member, label in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            if not value.get(member):
                text = raw.decode("utf-8", "replace")
                raise errors.BadRequest(f"Object '{label}' is missing in '{text}'")

    def check_kind(self, value: Object) -> None:
        """Reject another apiVersion; another kind fails the validation."""
        api_version = value.get("apiVersion") or self.api_version
        if api_version != self.api_version:
            raise errors.BadRequest(
                f"the API version in the data ({api_version}) does not match the expected "
                f"API version ({self.api_version})"
            )
        value["kind"], value["apiVersion"] = value.get("kind") or self.kind, api_version

    def decode_patched(self, new: Object, unknown: list[str]) -> Object:
        """Decode the result of a patch; failures are errors of the patch."""
        for member in ("apiVersion", "kind"):
            if member in new and not isinstance(new[member], str):
                kind = "<nil>" if new[member] is None else goformat.type_name(new[member])
                shown = f"{goformat.plain(new[member])} is of the type {kind}"
                raise decoding.invalid_patch(
                    new, f".{member} accessor error: {shown}, expected string"
                )
        try:
            return self.decode(new, unknown)
        except DecodeError as error:
            raise decoding.invalid_patch(new, str(error.cause)) from None
