# SPDX-License-Identifier: Apache-2.0
"""The shape of metadata: what Go's typed decoding makes of it.

All kinds, custom or built in, share ObjectMeta; a request's metadata passes
through the Go struct, which refuses wrong types, forgets unknown members and,
when written again, leaves out what is empty. `decode_object_meta` has the same
effect on a dict. Well-formed metadata takes the fast path: each known member
is looked up once in wire order, so the result is ordered as well (1-2 µs).
Only when something does not fit, the members are visited in the order in which
Go would meet them, to report the same first error.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rdd.api import timestamps
from rdd.base import govalue


class MetadataError(ValueError):
    """Metadata does not fit its type; the text is Go's."""


class _Misfit(Exception):
    """Internal: leave the fast path."""


ORDER = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
    "annotations", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
"""Members of metadata in the order in which they are written."""


def order_metadata(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the known members of metadata in wire order, as a new dict (0.8 µs)."""
    return {k: meta[k] for k in ORDER if k in meta}


def order_owner_reference(reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an owner reference in wire order."""
    return {k: reference[k] for k in _OWNER if k in reference}


def decode_object_meta(
    meta: Any, *, builtin_kind: str = "", path: str = "metadata"
) -> tuple[dict[str, Any], list[str]]:
    """Return metadata in the form in which it is stored, and the paths of unknown members.

    The result is a new dict in wire order; members of it may be shared with `meta`.
    Kubernetes decodes the metadata of custom resources from the parsed object and that of
    built-in kinds from the text, which shows in the wording and order of errors: pass the
    name of a built-in kind. None is empty metadata. Raises MetadataError.
    """
    if meta is None:
        return {}, []
    if type(meta) is dict:
        try:
            return _decode_known(meta), []
        except _Misfit:
            pass
    decoder = _TypedDecoder(path, builtin_kind) if builtin_kind else _Decoder(path)
    return decoder.object_meta(meta)


def _text_map(value: Any) -> Any:
    if type(value) is not dict:
        raise _Misfit
    for item in value.values():
        if type(item) is not str:
            raise _Misfit
    return value


def _text_list(value: Any) -> Any:
    if type(value) is not list:
        raise _Misfit
    for item in value:
        if type(item) is not str:
            raise _Misfit
    return value


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise _Misfit
    try:
        return timestamps.normalise(value)
    except ValueError:
        raise _Misfit from None


def _int64(value: Any) -> Any:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise _Misfit
    return value


def _structs(order: tuple[str, ...], required: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a check of a list of dicts that already are what decoding would make of them."""
    known = frozenset(order)

    def check(value: Any) -> Any:
        if type(value) is not list:
            raise _Misfit
        for item in value:
            if type(item) is not dict or not known.issuperset(item):
                raise _Misfit
            for member in required:
                if member not in item:
                    raise _Misfit
            for member, content in item.items():
                expected = _STRUCT_TYPES.get(member, str)
                if type(content) is not expected or (not content and member not in required):
                    raise _Misfit
            if "time" in item and _time(item["time"]) != item["time"]:
                raise _Misfit
        return value

    return check


_STRUCT_TYPES = {"controller": bool, "blockOwnerDeletion": bool, "fieldsV1": dict}
_OWNER = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_OWNER_REQUIRED = _OWNER[:4]
_MANAGED = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")

# member → check of the fast path; None is plain text
_FAST: tuple[tuple[str, Callable[[Any], Any] | None], ...] = (
    ("name", None),
    ("generateName", None),
    ("namespace", None),
    ("selfLink", None),
    ("uid", None),
    ("resourceVersion", None),
    ("generation", _int64),
    ("creationTimestamp", _time),
    ("deletionTimestamp", _time),
    ("deletionGracePeriodSeconds", _int64),
    ("labels", _text_map),
    ("annotations", _text_map),
    ("ownerReferences", _structs(_OWNER, _OWNER_REQUIRED)),
    ("finalizers", _text_list),
    ("managedFields", _structs(_MANAGED, ())),
)


def _decode_known(meta: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    left = len(meta)
    for member, check in _FAST:
        if member not in meta:
            continue
        value = meta[member]
        left -= 1
        if value is None:
            continue
        if check is None:
            if type(value) is not str:
                raise _Misfit
        else:
            value = check(value)
        if value or (value == 0 and member == "deletionGracePeriodSeconds"):
            out[member] = value
        if not left:
            return out
    if left:
        raise _Misfit
    return out


def _kind_of(value: Any) -> str:
    """Return the JSON type of a value as Go names it in errors."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


_TEXT_TYPES = {"uid": "types.UID", "operation": "v1.ManagedFieldsOperationType"}


class _Decoder:
    """The slow path: exact, member by member, in the order in which Go decodes.

    This class decodes the metadata of custom resources, which Kubernetes reads as a map first.
    """

    prefix = ""
    target = "value"

    def __init__(self, path: str) -> None:
        self.path = path
        self.unknown: list[str] = []

    def keys(self, value: dict[str, Any]) -> Iterable[str]:
        """Return the members in the order in which they are decoded."""
        return sorted(value)

    def number(self, value: float) -> float:
        """Return a number as it is decoded: 1.0 is written as 1 before it is read again."""
        return int(value) if value.is_integer() else value

    def number_text(self, value: float) -> str:
        """Return a number as errors show it."""
        return govalue.number(value)

    def object_meta(self, meta: Any) -> tuple[dict[str, Any], list[str]]:
        if not isinstance(meta, dict):
            text = f"json: cannot unmarshal {_kind_of(meta)} into Go {self.target}"
            raise MetadataError(f"{text} of type v1.ObjectMeta")
        out = self._struct(meta, _OBJECT_META, "ObjectMeta", "", self.path)
        return order_metadata({k: v for k, v in out.items() if v is not None}), self.unknown

    def _struct(
        self, value: dict[str, Any], members: dict[str, Any], name: str, field: str, path: str
    ) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key in self.keys(value):
            spec = members.get(key)
            if spec is None:
                if len(self.unknown) < 100:
                    self.unknown.append(f"{path}.{key}")
                continue
            content = value[key]
            if content is None:
                continue
            inner = f"{field}.{key}" if field else key
            out[key] = spec(self, content, f"{name}.{self.prefix}{inner}", inner, f"{path}.{key}")
        return out

    def wrong(self, value: Any, where: str, target: str) -> MetadataError:
        text = f"json: cannot unmarshal {_kind_of(value)} into Go struct field {where}"
        return MetadataError(f"{text} of type {target}")

    def text(self, value: Any, where: str, field: str, path: str) -> str | None:
        if not isinstance(value, str):
            raise self.wrong(value, where, _TEXT_TYPES.get(where.rpartition(".")[2], "string"))
        return value or None

    def kept_text(self, value: Any, where: str, field: str, path: str) -> str:
        return self.text(value, where, field, path) or ""

    def boolean(self, value: Any, where: str, field: str, path: str) -> bool:
        if not isinstance(value, bool):
            raise self.wrong(value, where, "bool")
        return value

    def time(self, value: Any, where: str, field: str, path: str) -> str | None:
        if not isinstance(value, str):
            raise self.wrong(value, where, "string")
        try:
            return timestamps.normalise(value)
        except ValueError as e:
            raise MetadataError(str(e)) from None

    def kept_integer(self, value: Any, where: str, field: str, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(value, where, "int64")
        if isinstance(value, float):
            value = self.number(value)
        if not isinstance(value, int) or not -(2**63) <= value < 2**63:
            shown = self.number_text(value)
            text = f"json: cannot unmarshal number {shown} into Go struct field {where}"
            raise MetadataError(f"{text} of type int64")
        return value

    def integer(self, value: Any, where: str, field: str, path: str) -> int | None:
        return self.kept_integer(value, where, field, path) or None

    def texts(self, value: Any, where: str, field: str, path: str) -> list[str] | None:
        if not isinstance(value, list):
            raise self.wrong(value, where, "[]string")
        return [self._item(item, where) for item in value] or None

    def text_map(self, value: Any, where: str, field: str, path: str) -> dict[str, str] | None:
        if not isinstance(value, dict):
            raise self.wrong(value, where, "map[string]string")
        return {key: self._item(value[key], where) for key in self.keys(value)} or None

    def _item(self, value: Any, where: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(value, where, "string")
        return value

    def owners(self, value: Any, where: str, field: str, path: str) -> list[Any] | None:
        items = self._structs(value, where, field, path, _OWNER_MEMBERS, "OwnerReference")
        return [
            {m: item.get(m, "") for m in _OWNER_REQUIRED}
            | {m: item[m] for m in _OWNER[4:] if m in item}
            for item in items
        ] or None

    def managed(self, value: Any, where: str, field: str, path: str) -> list[Any] | None:
        items = self._structs(value, where, field, path, _MANAGED_MEMBERS, "ManagedFieldsEntry")
        return [{m: i[m] for m in _MANAGED if i.get(m) is not None} for i in items] or None

    def _structs(
        self, value: Any, where: str, field: str, path: str, members: dict[str, Any], name: str
    ) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise self.wrong(value, where, f"[]v1.{name}")
        items: list[dict[str, Any]] = []
        for i, item in enumerate(value):
            if item is None:
                items.append({})
                continue
            if not isinstance(item, dict):
                raise self.wrong(item, where, f"v1.{name}")
            items.append(self._struct(item, members, name, field, f"{path}[{i}]"))
        return items

    def raw(self, value: Any, where: str, field: str, path: str) -> Any:
        return value


class _TypedDecoder(_Decoder):
    """Decodes the metadata of a built-in kind, which Kubernetes reads from the text."""

    prefix = "metadata."  # the kind is decoded from its root, so errors name the field from there

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path)
        self.target = f"struct field {kind}.metadata"

    def keys(self, value: dict[str, Any]) -> Iterable[str]:
        return value

    def number(self, value: float) -> float:
        return value

    def number_text(self, value: float) -> str:
        return str(value)


_D = _Decoder
_OBJECT_META: dict[str, Any] = {
    "name": _D.text, "generateName": _D.text, "namespace": _D.text, "selfLink": _D.text,
    "uid": _D.text, "resourceVersion": _D.text, "generation": _D.integer,
    "creationTimestamp": _D.time, "deletionTimestamp": _D.time,
    "deletionGracePeriodSeconds": _D.kept_integer, "labels": _D.text_map,
    "annotations": _D.text_map, "ownerReferences": _D.owners, "finalizers": _D.texts,
    "managedFields": _D.managed,
}  # fmt: skip
_OWNER_MEMBERS: dict[str, Any] = {
    **dict.fromkeys(_OWNER_REQUIRED, _D.kept_text),
    "controller": _D.boolean, "blockOwnerDeletion": _D.boolean,
}  # fmt: skip
_MANAGED_MEMBERS: dict[str, Any] = {
    **dict.fromkeys(_MANAGED, _D.text), "time": _D.time, "fieldsV1": _D.raw,
}  # fmt: skip
