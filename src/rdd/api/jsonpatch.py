# SPDX-License-Identifier: Apache-2.0
"""JSON patch (RFC 6902) with the semantics of kube-apiserver.

The reference uses evanphx/json-patch v4, which differs from the RFC where
clients can see it: `replace` of a missing member adds it, `copy` of a missing
member copies null, array indices may be negative, the text before the first
slash of a pointer is ignored. A patch that cannot be applied is always
answered with the same 422, whatever the reason; the reason is the cause of
the exception.

The object is not deep-copied: a container is copied the first time an
operation changes it, everything else is shared with the input. Neither the
object nor the patch is modified, so a patch can be applied again to a newer
object after a conflict.
"""

import re
from typing import Any

import orjson

from rdd.api import decode, errors
from rdd.base import goformat, gotext

MAX_OPERATIONS = 10_000
MAX_COPY_BYTES = 3 * 1024 * 1024
"""What all copy operations of one patch may add, as the reference server is configured."""
MAX_POINTER_SEGMENTS = 128
"""Pointers beyond this build objects that no encoder accepts (orjson stops at 254 levels)."""

_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_MEMBERS = frozenset(("op", "path", "from", "value"))
_MAX_STRICT_ERRORS = 100  # as in sigs.k8s.io/json
_TEXT_MEMBERS = ("op", "path", "from")


class _CannotApply(Exception):
    """Why a patch does not apply (not shown to clients)."""


def apply_json_patch(obj: Any, patch: Any, *, strict: bool = True) -> Any:
    """Return the object after all operations of the patch; it may share parts with `obj`.

    `strict` is False under fieldValidation=Ignore and only changes the wording
    of errors about a malformed patch. The result need not be an object: the
    patch may replace the whole document.

    Raises BadRequest for something that is not a list of operations,
    RequestEntityTooLarge for too many of them and Invalid if one does not apply.
    """
    operations = _decode(patch, strict)
    document = _Document(obj)
    try:
        for operation in operations:
            document.run(operation or {})
    except _CannotApply as e:
        raise errors.Invalid(
            "the server rejected our request due to an error in our request", details={}
        ) from e
    except RecursionError as e:
        raise errors.BadRequest(goformat.TOO_DEEP) from e
    return document.root


def strict_errors(patch: Any, text: bytes) -> list[str]:
    """Return the errors of strict decoding in a well-formed patch: `text` and its value.

    Members that no operation has, and duplicate ones, in the order of the text.
    """
    if not isinstance(patch, list):
        return []
    is_plain = all(_MEMBERS.issuperset(operation or ()) for operation in patch)
    if is_plain and not decode.find_duplicate_keys(text, patch):
        return []
    found: dict[str, None] = {}
    for i, operation in enumerate(decode.parse_document(text)):
        seen = set()
        for name, value in operation or ():
            path = f"[{i}].{name}"
            if name not in _MEMBERS:
                found[f"json patch unknown field {gotext.quote(path)}"] = None
                continue
            if name in seen:
                found[f"json patch duplicate field {gotext.quote(path)}"] = None
            seen.add(name)
            for below in decode.duplicate_paths(value, path):
                found[f"json patch duplicate field {gotext.quote(below)}"] = None
    return list(found)[:_MAX_STRICT_ERRORS]


def _decode(patch: Any, strict: bool) -> list[dict[str, Any] | None]:
    problem, many, one = "json: cannot unmarshal ", "jsonpatch.Patch", "jsonpatch.Operation"
    if strict:
        problem = f"error decoding patch: {problem}"
        many, one = "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"
    if patch is None:
        return []
    if not isinstance(patch, list):
        kind = goformat.json_kind(patch)
        raise errors.BadRequest(f"{problem}{kind} into Go value of type {many}")
    for operation in patch:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            kind = goformat.json_kind(operation)
            raise errors.BadRequest(f"{problem}{kind} into Go value of type {one}")
        for name in _TEXT_MEMBERS if strict else ():
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise errors.BadRequest(
                    f"{problem}{goformat.json_kind(value)}"
                    f" into Go struct field jsonPatchOp.{name} of type string"
                )
    if len(patch) > MAX_OPERATIONS:
        raise errors.RequestEntityTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


class _Document:
    """An object under change, with the containers that are already private copies."""

    def __init__(self, root: Any) -> None:
        self.root = root
        # By id; the values keep the containers alive so that ids are not reused.
        self.private: dict[int, Any] = {}
        self.copied_bytes = 0

    def run(self, operation: dict[str, Any]) -> None:
        match operation.get("op"):
            case "add":
                self.add(_text(operation, "path"), operation.get("value"))
            case "remove":
                self.remove(_text(operation, "path"))
            case "replace":
                self.replace(_text(operation, "path"), operation.get("value"))
            case "move":
                source = _text(operation, "from")
                value = self.get(source)
                self.remove(source)
                self.add(_text(operation, "path"), value)
            case "copy":
                self.copy(_text(operation, "from"), _text(operation, "path"))
            case "test":
                self.test(_text(operation, "path"), operation.get("value"))
            case other:
                raise _CannotApply(f"Unexpected kind: {other}")

    def add(self, pointer: str, value: Any) -> None:
        container, key = self.find(pointer, change=True)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)

    def remove(self, pointer: str) -> None:
        container, key = self.find(pointer, change=True)
        if isinstance(container, list):
            del container[_index(key, len(container))]
        elif key in container:
            del container[key]
        else:
            raise _CannotApply(f"Unable to remove nonexistent key: {key}")

    def replace(self, pointer: str, value: Any) -> None:
        if pointer == "":
            if not isinstance(value, dict | list):
                raise _CannotApply("replace operation value must be object or array")
            self.root = value
            return
        container, key = self.find(pointer, change=True)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container))] = value

    def copy(self, source: str, pointer: str) -> None:
        value = self.get(source)
        self.find(pointer)
        if value is not None:
            encoded = orjson.dumps(value)
            self.copied_bytes += len(encoded)
            if self.copied_bytes > MAX_COPY_BYTES:
                raise _CannotApply(
                    "Unable to complete the copy, the accumulated size increase of copy is"
                    f" {self.copied_bytes}, exceeding the limit {MAX_COPY_BYTES}"
                )
            if isinstance(value, dict | list):
                value = orjson.loads(encoded)
        self.add(pointer, value)

    def test(self, pointer: str, value: Any) -> None:
        found = self.root if pointer == "" else self.get(pointer)
        if not _same(found, value):
            raise _CannotApply(f"testing value {pointer} failed")

    def get(self, pointer: str) -> Any:
        """Return the value at a pointer; None for a missing member of an object."""
        container, key = self.find(pointer)
        if isinstance(container, dict):
            return container.get(key)
        return container[_index(key, len(container))]

    def find(self, pointer: str, *, change: bool = False) -> tuple[Any, str]:
        """Return the container a pointer leads to and the last key.

        Private copies if it will change.
        """
        parts = pointer.split("/")
        if len(parts) < 2:
            raise _CannotApply(f"doc is missing path: {pointer!r}")
        if len(parts) > MAX_POINTER_SEGMENTS:
            raise errors.BadRequest(goformat.TOO_DEEP)
        here = self.root = self.own(self.root) if change else self.root
        if not isinstance(here, dict | list):
            raise _CannotApply(f"doc is missing path: {pointer!r}")
        for part in parts[1:-1]:
            key: Any = _unescape(part)
            if isinstance(here, list):
                key = _index(key, len(here))
                below = here[key]
            else:
                below = here.get(key)
            if not isinstance(below, dict | list):
                raise _CannotApply(f"doc is missing path: {pointer!r}")
            if change:
                below = here[key] = self.own(below)
            here = below
        return here, _unescape(parts[-1])

    def own(self, container: Any) -> Any:
        if id(container) in self.private or not isinstance(container, dict | list):
            return container
        copy = container.copy()
        self.private[id(copy)] = copy
        return copy


def _text(operation: dict[str, Any], name: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise _CannotApply(f"operation missing {name} field")
    return value


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _index(key: str, length: int) -> int:
    """Return the position an index names in a list of that length.

    Negative ones count from the end.
    """
    if not _INDEX.fullmatch(key):
        raise _CannotApply(f"value was not a proper array index: '{key}'")
    position = int(key)
    if not -length <= position < length:
        raise _CannotApply(f"Unable to access invalid index: {position}")
    return position + length if position < 0 else position


def _same(a: Any, b: Any) -> bool:
    """Return equality of JSON texts: 1, 1.0 and true differ, unlike in Python."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
