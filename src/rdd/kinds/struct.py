# SPDX-License-Identifier: Apache-2.0
"""Typed, read-only views of plain dicts, and the notation that declares them.

    class Kubernetes(Struct):
        enabled: bool = field("Whether to run Kubernetes.")
        version: str = field("Its version.", default=UNSET)

    Kubernetes.of({"enabled": True, "x": 1}).version    # "": a view, nothing is copied
    Kubernetes(enabled=True).raw                        # {"enabled": True}: a new dict

A view holds only the dict (`raw`), so undeclared members are preserved, and creating a view costs
little more than reading an attribute. Views are read-only, because objects come from shared caches;
`replace` returns a modified copy.

The annotation of a field is its type: bool, int, str, Literal (an enum), a Struct, Sequence[…] of
these, Mapping[str, str]. Its default defines the meaning of an absent field:

    no default      it is required
    default=UNSET   it is empty: "", 0, False, (), {}, or a Struct without members
    default=None    None, where absent differs from empty; declare `T | None`
    default=value   the server defaults it to the value

Type checkers treat a Struct as a dataclass (PEP 681): its constructor has keyword arguments only,
and they check which ones are required.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeGuard,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from rdd.api.types import Object

UNSET: Final[Any] = object()
"""The default of an optional field that reads as empty if it is absent."""

_REQUIRED: Final[Any] = object()
_EMPTY: dict[Any, Any] = {
    bool: False, int: 0, str: "", Sequence: (), Mapping: MappingProxyType({}),
}  # fmt: skip


class Field:
    """A declared member, created by `field`; as a descriptor it reads that member."""

    __slots__ = (
        "_absent", "_decode", "_is_always_view", "_keeps_empty",
        "default", "doc", "enum", "item", "required", "schema", "type", "wire_name",
    )  # fmt: skip

    def __init__(
        self, doc: str, *, default: Any, required: bool, name: str, schema: Mapping[str, Any]
    ) -> None:
        self.doc = doc
        self.default = default
        """The default that the server sets; UNSET: none."""
        self.required = required or default is _REQUIRED
        self.wire_name = name
        self.schema = schema
        self.type: Any = None
        """bool, int, str, Sequence, Mapping, or a subclass of Struct."""
        self.item: Any = None
        """The type of the items of a Sequence, of the values of a Mapping."""
        self.enum: tuple[str, ...] = ()

    def bind(self, name: str, annotation: Any) -> None:
        """Set the type from the annotation; raise TypeError if annotation and default conflict."""
        self.wire_name = self.wire_name or _camel_case(name)
        is_nullable = get_origin(annotation) in (Union, UnionType)
        if is_nullable:
            annotation, nothing = get_args(annotation)
            if nothing is not NoneType:
                raise TypeError(f"{name}: a union can only be `T | None`")
        if is_nullable != (self.default is None):
            raise TypeError(f"{name}: `T | None` and default=None need each other")
        if get_origin(annotation) is Literal:
            self.enum, annotation = get_args(annotation), str
            if self.default is UNSET:
                raise TypeError(f"{name}: the empty text is not in the enum; declare `| None`")
        self.type = get_origin(annotation) or annotation
        if get_args(annotation):
            self.item = get_args(annotation)[-1]
        if self.type not in _EMPTY and not _is_struct(self.type):
            raise TypeError(f"{name}: a field cannot be of type {annotation!r}")

        has_default = self.default not in (UNSET, None, _REQUIRED)
        self._absent = self.default if has_default else _EMPTY.get(self.type)
        if is_nullable:
            self._absent = None
        self._is_always_view = _is_struct(self.type) and not is_nullable
        self._keeps_empty = self.required or is_nullable or has_default or _is_struct(self.type)
        self._decode = self._decoder()
        self.default = self.default if has_default else UNSET

    def _decoder(self) -> Callable[[Any], Any] | None:
        if _is_struct(self.type):
            return self.type.of
        if _is_struct(self.item):
            of = self.item.of
            return lambda items: [of(item) for item in items]
        # A quantity can be a number on the wire.
        return str if "x-kubernetes-int-or-string" in self.schema else None

    def __get__(self, view: "Struct | None", owner: type | None = None) -> Any:
        if view is None:
            return self
        value = view.raw.get(self.wire_name)
        if value is None:
            if not self._is_always_view:
                return self._absent
            value = {}
        return value if self._decode is None else self._decode(value)

    def write(self, raw: Object, value: Any) -> None:
        """Write a value into a dict; omit values that read the same when absent, as Go does."""
        if value is not None:
            if _is_struct(self.type):
                value = value.raw
            elif self.type is Sequence:
                value = [item.raw for item in value] if _is_struct(self.item) else list(value)
            elif self.type is Mapping:
                value = dict(value)
        if value or (value is not None and self._keeps_empty):
            raw[self.wire_name] = value
        else:
            raw.pop(self.wire_name, None)


def field(
    doc: str,
    *,
    default: Any = _REQUIRED,
    required: bool = False,
    name: str = "",
    schema: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Declare a member of a Struct.

    `doc` is its description; the first sentence must be complete by itself. `required` is for a
    member that is required and has a default. `name` is the name on the wire if it differs from
    the attribute in camelCase. `schema` has additional members of its OpenAPI schema (see
    rdd.kinds.constraints).
    """
    return Field(doc, default=default, required=required, name=name, schema=schema)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _StructType(type):
    """Adds `__slots__` to each class, so that assigning a misspelt attribute fails."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_StructType":
        namespace.setdefault("__slots__", ())
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(metaclass=_StructType):
    """A view of a dict; subclasses declare its members with `field`."""

    __slots__ = ("raw",)

    fields: ClassVar[Mapping[str, Field]] = {}
    """All declared members by attribute, those of parent classes first."""
    _preset: ClassVar[Mapping[str, Any]] = {}
    """The initial members of every new dict."""

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        for name, declared in own.items():
            declared.bind(name, cls.__annotations__[name])
        cls.fields = {**cls.fields, **own}

    def __init__(self, **values: Any) -> None:
        self.raw: Object = dict(self._preset)
        """The dict itself; it MUST NOT be modified unless the caller created it."""
        self._write(values)
        for name, declared in self.fields.items():
            if declared.required and declared.default is UNSET and name not in values:
                raise TypeError(f"{type(self).__name__} needs {name}")

    @classmethod
    def of(cls, raw: Object) -> Self:
        """Return the view of a dict, which is not copied; raise TypeError for other values."""
        if not isinstance(raw, dict):
            raise TypeError(f"{cls.__name__} is an object, not {type(raw).__name__}")
        view = cls.__new__(cls)
        view.raw = raw
        return view

    def replace(self, **changes: Any) -> Self:
        """Return a view of a copy with some members changed; None removes one."""
        view = self.of(dict(self.raw))
        view._write(changes)
        return view

    def _write(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            declared = self.fields.get(name)
            if declared is None:
                raise TypeError(f"{type(self).__name__} has no {name}")
            declared.write(self.raw, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.raw == other.raw)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({self.raw!r})"


def _is_struct(type_: Any) -> TypeGuard[type[Struct]]:
    return isinstance(type_, _StructType)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
