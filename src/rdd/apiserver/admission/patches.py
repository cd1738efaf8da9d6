# SPDX-License-Identifier: Apache-2.0
"""Applies the JSON patch of a mutating webhook and explains failures as Kubernetes does.

A PATCH request that does not apply gets a fixed error. Here the client is not the author of the
patch and needs the reason, so the failing operation is located and explained.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from rdd.api import errors, jsonpatch
from rdd.api.types import Object
from rdd.base.gotext import quote

_MISSING = "missing value"
_COPIED_TOO_MUCH = "Unable to complete the copy"
"""The start of the only failure text that concerns the whole patch."""
_KINDS = ("add", "remove", "replace", "move", "copy", "test")


def apply(obj: Object, patch: Any) -> Object:
    """Return the object after a patch; the result shares nothing with the input.

    Raises InternalError if it does not apply, BadRequest or RequestEntityTooLarge if it is not
    a patch.
    """
    try:
        new = jsonpatch.apply_json_patch(obj, patch, strict=False)
    except errors.Invalid as error:
        why = str(error.__cause__)
        if not why.startswith(_COPIED_TOO_MUCH):
            why = _explain(obj, patch)
        raise errors.InternalError.because(why) from None
    if not isinstance(new, dict):
        raise errors.InternalError.because("the patched document is not an object")
    try:
        # Three levels represent the documents that will contain the object when it is encoded.
        text = orjson.dumps([[[new]]])
    except orjson.JSONEncodeError as error:
        raise errors.InternalError.because(f"cannot encode the patched object: {error}") from None
    copy: Object = orjson.loads(text)[0][0][0]
    return copy


def _explain(obj: Object, patch: Sequence[Any]) -> str:
    """Return the reason why the first failing operation fails."""
    # Binary search: each application copies what it changes, and patches can be long.
    good, bad = 0, len(patch)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _applied(obj, patch[:middle]) is None:
            bad = middle
        else:
            good = middle
    return _reason(_applied(obj, patch[:good]), patch[good] or {})


def _applied(obj: Object, patch: Sequence[Any]) -> Any:
    try:
        return jsonpatch.apply_json_patch(obj, list(patch), strict=False)
    except errors.Invalid:
        return None


_WHERE = {
    "move": "doc is missing destination path: {}",
    "copy": "doc is missing destination path: {}",
    "replace": "doc is missing path: {}",
    "test": "is missing path: {}",
}


def _reason(doc: Any, operation: Object) -> str:
    kind, path = operation.get("op"), operation.get("path")
    if kind not in _KINDS:
        return f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}"
    if kind in ("move", "copy"):
        found = _source_problem(doc, str(kind), operation.get("from"))
        if found:
            return found
    if not isinstance(path, str):
        why = (
            _MISSING
            if kind in ("add", "remove", "copy")
            else (f"operation missing path field: {_MISSING}")
        )
        return f"{kind} operation failed to decode path: {why}"
    container, key = _find(doc, path)
    if container is None:
        where = _WHERE.get(str(kind), 'doc is missing path: "{}"').format(path)
        return f"{kind} operation does not apply: {where}: {_MISSING}"
    if kind == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: {_MISSING}"
    problem = _problem(container, key, may_append=kind in ("add", "move", "copy"))
    if kind == "test" and not problem:
        return f"testing value {path} failed: test failed"
    if kind == "copy":
        return f"error while adding value during copy: {problem}"
    return f"error in {kind} for path: '{path}': {problem}"


def _source_problem(doc: Any, kind: str, source: Any) -> str:
    """Return the error of the source path of a move or copy; empty if it is valid."""
    if not isinstance(source, str):
        return f"{kind} operation failed to decode from: operation, missing from field: {_MISSING}"
    container, key = _find(doc, source)
    if container is None:
        return f"{kind} operation does not apply: doc is missing from path: {source}: {_MISSING}"
    if kind == "copy" and isinstance(container, dict):
        return ""
    problem = _problem(container, key, may_append=False)
    if not problem:
        return ""
    shown = f"from: '{source}'" if kind == "copy" else f"path: '{key}'"
    return f"error in {kind} for {shown}: {problem}"


def _find(doc: Any, pointer: str) -> tuple[Any, str]:
    """Return the container of the last segment and that segment; None without such a container."""
    parts = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")]
    if len(parts) < 2:
        return None, ""
    for part in parts[1:-1]:
        if isinstance(doc, list):
            doc = None if _problem(doc, part, may_append=False) else doc[int(part)]
        else:
            doc = doc.get(part) if isinstance(doc, dict) else None
    return (doc if isinstance(doc, dict | list) else None), parts[-1]


def _problem(container: Any, key: str, *, may_append: bool) -> str:
    """Return why a container lacks a key or index; empty if it has it."""
    if isinstance(container, dict):
        if may_append or key in container:
            return ""
        return f"Unable to remove nonexistent key: {key}: {_MISSING}"
    if may_append and key == "-":
        return ""
    try:
        position = int(key)
    except ValueError:
        why = f"strconv.Atoi: parsing {quote(key)}: invalid syntax"
        return f"value was not a proper array index: '{key}': {why}" if may_append else why
    length = len(container) + may_append
    if -length <= position < length:
        return ""
    return f"Unable to access invalid index: {position}: invalid index referenced"
