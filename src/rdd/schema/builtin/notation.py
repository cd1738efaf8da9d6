# SPDX-License-Identifier: Apache-2.0
"""The notation in which the shapes of built-in kinds are written down.

A file of shapes (core.py, rbac.py, …) is one text that reads like Go's struct
declarations, because Kubernetes defines these kinds as Go structs and what a
client sees (member order, which empty members are printed, error texts)
follows from them:

    Secret kind  # Data that should not be shown.
      immutable   *bool                 # Whether data and type may change.
      data        map[string][]byte     # Bytes by key.
      type        SecretType(string)    # What the data is for.

A struct begins at the margin: its name, marks, and a description after `#`.
Each indented line is a member: name, Go type, marks, description.

Types: string, bool, int32, int64, float64, []byte, Time, MicroTime, Quantity,
JSON (any value), Raw and FieldsV1 (any object), `*T`, `[]T`, `map[string]T`, a struct of the
same file, `file.Struct` of another, and `Name(T)` for a named type, whose name
appears in error messages.

Marks of a struct: `kind` (has kind, apiVersion and metadata, and a list),
`review` (the same without a list), `typemeta` (kind and apiVersion only),
`metadata` (which is required then), `atomic` (server-side apply replaces it as a
whole).
Marks of a member: `!` required and always printed, `=` always printed,
`+` required but not printed when empty (all others are optional and not printed
when empty), `zero` (a time that is left out when unset), `set`, `atomic`,
`by=key` (list type), `merge` or `merge=key` (strategic merge), `enum=A|B`,
`in=A.B` (declared by the struct B embedded in A, which errors name).
A description `=NAME` stands for the constant of that name in texts.py.

Shapes are parsed on first use.
"""

import importlib
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from rdd.schema.builtin import texts

FILES = (
    "meta", "core", "rbac", "coordination", "events", "admissionregistration", "apiextensions",
    "apiregistration", "authentication", "authorization", "autoscaling",
)  # fmt: skip
"""The modules with shapes; each has PACKAGE, GROUP and TEXT."""

SCALARS = frozenset(
    (
        *("string", "bool", "int32", "int64", "float64", "bytes"),
        *("Time", "MicroTime", "Quantity", "JSON", "Raw", "FieldsV1"),
        *("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"),
    )
)


@dataclass(frozen=True, slots=True)
class Type:
    """A Go type.

    `form` is one of SCALARS, "list", "map" or "struct"; `go` is how Go prints
    the type; `item` belongs to lists and maps, `struct` names the definition.
    """

    form: str
    go: str
    pointer: bool = False
    item: "Type | None" = None
    struct: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct."""

    name: str
    type: Type
    description: str = ""
    required: bool = False
    keep: bool = False
    """Printed even when empty (no omitempty)."""
    zero: bool = False
    """A time that is left out when unset (omitzero)."""
    list_type: str = ""
    list_map_key: str = ""
    patch_strategy: str = ""
    patch_merge_key: str = ""
    enum: tuple[str, ...] = ()
    embedded: tuple[str, ...] = ()
    """The embedded Go structs that declare the member, outermost first."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: an OpenAPI definition."""

    name: str
    """The full definition name, e.g. io.k8s.api.core.v1.ConfigMap."""
    go_name: str
    go_type: str
    fields: tuple[Field, ...]
    description: str = ""
    atomic: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    """Set if the struct is a kind of its own (has a group-version-kind)."""

    @property
    def api_version(self) -> str:
        """Return `group/version`, or just the version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


_TYPE_META = (
    Field("kind", Type("string", "string"), texts.KIND, embedded=("TypeMeta",)),
    Field("apiVersion", Type("string", "string"), texts.API_VERSION, embedded=("TypeMeta",)),
)


@cache
def struct(name: str) -> Struct:
    """Return the struct of a full definition name. Raises KeyError if there is none."""
    package, _, short = name.rpartition(".")
    for file in FILES:
        module = _module(file)
        if package == module.PACKAGE and short in _blocks(file):
            return _parse(file, module, short)
        if package == module.PACKAGE and short.endswith("List") and short[:-4] in _blocks(file):
            return _list_of(struct(name[:-4]))
    raise KeyError(name)


def names() -> list[str]:
    """Return the full names of all structs, lists included."""
    found = []
    for file in FILES:
        package = _module(file).PACKAGE
        for short, (head, _) in _blocks(file).items():
            found.append(f"{package}.{short}")
            if "kind" in head.partition("#")[0].split()[1:]:
                found.append(f"{package}.{short}List")
    return found


def short_name(file: str, name: str) -> str:
    """Return the full definition name of `Struct` of a file."""
    return f"{_module(file).PACKAGE}.{name}"


@cache
def _module(file: str) -> ModuleType:
    return importlib.import_module(f"rdd.schema.builtin.{file}")


@cache
def _blocks(file: str) -> dict[str, tuple[str, list[str]]]:
    blocks: dict[str, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for line in _module(file).TEXT.splitlines():
        if not line.strip():
            continue
        if line[0] != " ":
            lines = []
            blocks[line.split(None, 1)[0]] = (line, lines)
        else:
            lines.append(line)
    return blocks


def _description(text: str) -> str:
    text = text.strip()
    return str(getattr(texts, text[1:])) if text.startswith("=") else text


def _parse(file: str, module: ModuleType, short: str) -> Struct:
    head, lines = _blocks(file)[short]
    declared, _, description = head.partition("#")
    marks = declared.split()[1:]
    fields = [_field(file, line) for line in lines]
    kind = ""
    if {"kind", "review", "typemeta"} & set(marks):
        kind = short
        before: tuple[Field, ...] = _TYPE_META
        if "typemeta" not in marks:
            object_meta = short_name("meta", "ObjectMeta")
            before += (
                Field(
                    "metadata",
                    Type("struct", "v1.ObjectMeta", struct=object_meta),
                    texts.METADATA,
                    required="metadata" in marks,
                ),
            )
        fields = [*before, *fields]
    return Struct(
        name=f"{module.PACKAGE}.{short}",
        go_name=short,
        go_type=f"v1.{short}",
        fields=tuple(fields),
        description=_description(description),
        atomic="atomic" in marks,
        group=module.GROUP,
        version="v1",
        kind=kind,
    )


def _list_of(item: Struct) -> Struct:
    list_meta = short_name("meta", "ListMeta")
    element = Type("struct", item.go_type, struct=item.name)
    return Struct(
        name=f"{item.name}List",
        go_name=f"{item.go_name}List",
        go_type=f"{item.go_type}List",
        fields=(
            *_TYPE_META,
            Field("metadata", Type("struct", "v1.ListMeta", struct=list_meta), texts.LIST_METADATA),
            Field(
                "items",
                Type("list", f"[]{item.go_type}", item=element),
                texts.LIST_ITEMS.get((item.group, item.go_name), f"The {item.go_name} objects."),
                required=True,
                keep=True,
            ),
        ),
        description=texts.LISTS.get(
            (item.group, item.go_name), f"A list of {item.go_name} objects."
        ),
        group=item.group,
        version=item.version,
        kind=f"{item.go_name}List",
    )


def _field(file: str, line: str) -> Field:
    declared, _, description = line.partition(" # ")
    name, type_, *marks = declared.split()
    values = dict(m.partition("=")[::2] for m in marks if "=" in m and m != "=")
    return Field(
        name=name,
        type=_type(file, type_),
        description=_description(description),
        required="!" in marks or "+" in marks,
        keep="!" in marks or "=" in marks,
        zero="zero" in marks,
        list_type="map" if "by" in values else _first(marks, "set", "atomic"),
        list_map_key=values.get("by", ""),
        patch_strategy="merge" if "merge" in values or "merge" in marks else "",
        patch_merge_key=values.get("merge", ""),
        enum=tuple(values["enum"].split("|")) if "enum" in values else (),
        embedded=tuple(values["in"].split(".")) if "in" in values else (),
    )


def _first(marks: list[str], *wanted: str) -> str:
    return next((m for m in wanted if m in marks), "")


_NAMED = re.compile(r"([A-Za-z.]+)\((.*)\)$")
_GO_NAMES = {
    "bytes": "[]uint8", "Time": "v1.Time", "MicroTime": "v1.MicroTime", "JSON": "v1.JSON",
    "Quantity": "resource.Quantity", "Raw": "runtime.RawExtension", "FieldsV1": "v1.FieldsV1",
}  # fmt: skip


@cache
def _type(file: str, text: str) -> Type:
    if text.startswith("*"):
        inner = _type(file, text[1:])
        return Type(inner.form, inner.go, True, inner.item, inner.struct)
    if text == "[]byte":
        return Type("bytes", "[]uint8")
    if text.startswith("[]"):
        item = _type(file, text[2:])
        return Type("list", f"[]{_go(item)}", item=item)
    if text.startswith("map[string]"):
        item = _type(file, text[11:])
        return Type("map", f"map[string]{_go(item)}", item=item)
    if match := _NAMED.match(text):
        inner = _type(file, match[2])
        go = match[1] if "." in match[1] else f"v1.{match[1]}"
        return Type(inner.form, go, item=inner.item)
    if text in SCALARS:
        return Type(text, _GO_NAMES.get(text, f"v1.{text}" if text[0] == "J" else text))
    other, _, short = text.rpartition(".")
    return Type("struct", f"v1.{short}", struct=short_name(other or file, short))


def _go(item: Type) -> str:
    return f"*{item.go}" if item.pointer else item.go
