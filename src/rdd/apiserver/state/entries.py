# SPDX-License-Identifier: Apache-2.0
"""One object at one revision, as encoded bytes, and one change of an object.

Labels are read from the bytes. `order_metadata` writes them as the first member of the metadata
that is not a scalar, so the first opening brace behind that of the metadata is theirs or there
are none. Finding them takes half a microsecond, which is why nothing decoded is kept: a list
with a selector leaves no trace in memory.

Entries are invisible to Python's cyclic garbage collector. They refer to texts and bytes only, so
they are never part of a cycle; with a million of them, a full collection would stop the loop for
120 ms to find that out.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import orjson

from rdd.apiserver.state import codec

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_LABELS = b'"labels":'
_METADATA_BYTES = len(b'"metadata":{')
_NO_LABELS: dict[str, str] = {}


def _untracking() -> Callable[[object], None]:
    """Return PyObject_GC_UnTrack of the C API, which every object may be passed to."""
    try:
        found = ctypes.pythonapi.PyObject_GC_UnTrack
    except AttributeError:  # another interpreter with another collector
        return lambda _: None
    found.argtypes, found.restype = [ctypes.py_object], None
    return found


_untrack = _untracking()


class CacheEntry:
    """One object at one revision; immutable, so it can be shared."""

    __slots__ = ("body", "name", "namespace", "revision")

    def __init__(self, namespace: str, name: str, revision: int, body: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.body = body
        _untrack(self)

    def decode(self) -> dict[str, Any]:
        """Return the object without kind and apiVersion, as a new dict."""
        return codec.decode(self.body)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the object."""
        body = self.body
        if "{" in self.name or "}" in self.name:  # names of RBAC objects are nearly free
            return self.decode()["metadata"].get("labels") or _NO_LABELS
        at = body.find(b"{", _METADATA_BYTES)
        if (
            at < 0
            or body[at - len(_LABELS) : at] != _LABELS
            or body.find(b"}", _METADATA_BYTES, at) >= 0  # the metadata ends before
        ):
            return _NO_LABELS
        found: dict[str, str] = orjson.loads(body[at : body.index(b"}", at) + 1])
        return found

    def fields(self, extract: Callable[[dict[str, Any]], Any]) -> dict[str, str]:
        """Return the values of the field-selector labels."""
        return dict(extract(self.decode()))


class ObjectChange:
    """One committed change of one object.

    `entry` is the new state, for DELETED the last state with the revision of
    the deletion; `old` is the state before, None for ADDED.
    """

    __slots__ = ("entry", "old", "type")

    def __init__(self, type_: str, entry: CacheEntry, old: CacheEntry | None) -> None:
        self.type = type_
        self.entry = entry
        self.old = old
