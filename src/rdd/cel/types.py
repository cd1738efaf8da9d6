# SPDX-License-Identifier: Apache-2.0
"""The types of expressions.

A `Type` is what the checker computes for every expression. Object types come
from schemas: they name their fields (under their CEL name, which may be an
escaped form of the JSON name) and carry what the cost estimate needs: how many
elements a value can have at most, and how few bytes it can have in JSON. Those
hints never take part in comparing types.

Types are also values: `type(x) == int` compares them by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# Kinds. A kind is what decides about field selection, assignability and conversion.
K_BOOL, K_INT, K_UINT, K_DOUBLE = "bool", "int", "uint", "double"
K_STRING, K_BYTES, K_NULL, K_DYN = "string", "bytes", "null_type", "dyn"
K_TIMESTAMP, K_DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
K_LIST, K_MAP, K_OBJECT, K_OPAQUE = "list", "map", "object", "opaque"
K_TYPE, K_PARAM, K_ERROR = "type", "param", "error"

_SHOWN = {K_TIMESTAMP: "timestamp", K_DURATION: "duration", K_NULL: "null", K_ERROR: "!error!"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object type: the key in the data, and its type."""

    key: str
    type: "Type"


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A CEL type. Build it with the constants and functions of this module."""

    kind: str
    name: str
    params: tuple["Type", ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict)
    # size hints of schema types, see the module docstring
    max_elements: int = 0
    min_size: int = 0
    # x-kubernetes-list-type and keys: sets and maps compare and add in their own way
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Return types as values: equal when they have the same name, whatever their parameters."""
        return isinstance(other, Type) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        shown = _SHOWN.get(self.kind, self.name)
        if not self.params:
            return shown
        return f"{shown}({', '.join(map(str, self.params))})"

    @property
    def is_dynamic(self) -> bool:
        """Return whether the checker lets this type pass anywhere."""
        return self.kind is K_DYN or self.kind is K_ERROR

    def resized(self, *, max_elements: int | None = None, min_size: int | None = None) -> "Type":
        """Return the same type with other size hints."""
        changes: dict[str, Any] = {}
        if max_elements is not None:
            changes["max_elements"] = max_elements
        if min_size is not None:
            changes["min_size"] = min_size
        return replace(self, **changes)


def _simple(kind: str) -> Type:
    return Type(kind, kind)


BOOL, INT, UINT, DOUBLE = _simple(K_BOOL), _simple(K_INT), _simple(K_UINT), _simple(K_DOUBLE)
STRING, BYTES, NULL, DYN = _simple(K_STRING), _simple(K_BYTES), _simple(K_NULL), _simple(K_DYN)
TIMESTAMP, DURATION = _simple(K_TIMESTAMP), _simple(K_DURATION)
ERROR = _simple(K_ERROR)
TYPE = Type(K_TYPE, "type")

QUANTITY = Type(K_OBJECT, "kubernetes.Quantity")
URL = Type(K_OBJECT, "kubernetes.URL")
FORMAT = Type(K_OBJECT, "kubernetes.NamedFormat")
SEMVER = Type(K_OBJECT, "kubernetes.Semver")
IP = Type(K_OPAQUE, "net.IP")
CIDR = Type(K_OPAQUE, "net.CIDR")
AUTHORIZER = Type(K_OBJECT, "kubernetes.authorization.Authorizer")
PATH_CHECK = Type(K_OBJECT, "kubernetes.authorization.PathCheck")
GROUP_CHECK = Type(K_OBJECT, "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = Type(K_OBJECT, "kubernetes.authorization.ResourceCheck")
DECISION = Type(K_OBJECT, "kubernetes.authorization.Decision")


def list_of(
    element: Type, *, max_elements: int = 0, list_type: str = "atomic", keys: Sequence[str] = ()
) -> Type:
    """Return a list type; `list_type` and `keys` are those of the schema, if it has any."""
    return Type(
        K_LIST,
        "list",
        (element,),
        max_elements=max_elements,
        min_size=2,
        list_type=list_type,
        list_keys=tuple(keys),
    )


def map_of(key: Type, value: Type, *, max_elements: int = 0) -> Type:
    """Return a map type."""
    return Type(K_MAP, "map", (key, value), max_elements=max_elements, min_size=2)


def object_type(name: str, fields: Mapping[str, Type | Field], *, min_size: int = 2) -> Type:
    """Return an object type with named fields; a plain type means a field of that key."""
    return Type(
        K_OBJECT,
        name,
        fields={n: f if isinstance(f, Field) else Field(n, f) for n, f in fields.items()},
        min_size=min_size,
    )


def optional_of(value: Type) -> Type:
    """Return the type of a value that may be absent."""
    return Type(K_OPAQUE, "optional_type", (value,))


def type_of_type(value: Type) -> Type:
    """Return the type of a type: what `int` in `type(x) == int` has."""
    return Type(K_TYPE, "type", (value,))


def param(name: str) -> Type:
    """Return a type parameter of a generic function."""
    return Type(K_PARAM, name)


LIST, MAP = list_of(DYN), map_of(DYN, DYN)


def is_optional(candidate: Type) -> bool:
    """Return whether a type is an optional."""
    return candidate.kind is K_OPAQUE and candidate.name == "optional_type"


def same(left: Type, right: Type) -> bool:
    """Return whether two types are the same one, including their parameters."""
    return (
        left.kind == right.kind
        and left.name == right.name
        and len(left.params) == len(right.params)
        and all(map(same, left.params, right.params))
    )


def has_params(candidate: Type) -> bool:
    """Return whether a type mentions a type parameter."""
    return candidate.kind is K_PARAM or any(map(has_params, candidate.params))
