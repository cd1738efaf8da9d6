# SPDX-License-Identifier: Apache-2.0
"""The shape of a kind as structured-merge-diff sees it.

Field ownership and server-side apply need to know of every value only which
parts are merged separately: whether an object is granular or atomic, a list a
set, a map by keys or atomic, and which types are allowed. `shape_of` derives
this from a schema node once, with the rules of kube-openapi's conversion:

- an object that declares nothing, or lies below x-kubernetes-preserve-unknown-fields,
  accepts undeclared members whose shape is deduced from the value (DEDUCED);
- the type of a list is its x-kubernetes-list-type, else follows from its patch strategy;
- apiVersion, kind and metadata exist in every object and embedded resource.

Nodes are known by protocol, so that this package needs nothing of `schema`.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from rdd.base import gotext, govalue


class SchemaNode(Protocol):
    """One level of a compiled structural schema (see rdd.schema.node.Node)."""

    @property
    def source(self) -> Mapping[str, Any]:
        """Return the OpenAPI form."""

    @property
    def type(self) -> str:
        """object, array, string, integer, number, boolean or "" (anything)."""

    @property
    def properties(self) -> Mapping[str, "SchemaNode"]:
        """Return the declared members of an object."""

    @property
    def additional(self) -> "SchemaNode | None":
        """Return the schema of undeclared members."""

    @property
    def items(self) -> "SchemaNode | None":
        """Return the schema of list items."""

    @property
    def preserve_unknown(self) -> bool:
        """Return whether undeclared members are kept."""

    @property
    def embedded(self) -> bool:
        """Return whether the object is a resource with apiVersion, kind and metadata."""

    @property
    def list_type(self) -> str:
        """atomic, set or map."""

    @property
    def list_map_keys(self) -> tuple[str, ...]:
        """Return the members that identify an item of a list map."""

    @property
    def map_type(self) -> str:
        """granular or atomic."""

    @property
    def patch_strategy(self) -> str:
        """Return the setting of strategic merge patch."""

    @property
    def patch_merge_key(self) -> str:
        """Return the setting of strategic merge patch."""


class Shape:
    """How values of one schema level are compared and merged.

    A level may allow scalars, objects and lists at once. `leaf` means that no
    value of it has parts; this is the test all walks do first.
    """

    __slots__ = (
        "associative",
        "atomic",
        "element",
        "granular",
        "item",
        "key_defaults",
        "keys",
        "leaf",
        "list_kind",
        "members",
        "mixed",
        "scalar",
    )

    def __init__(self) -> None:
        self.scalar: str = ""
        """numeric, string, boolean, untyped, or "" if scalars are not allowed."""
        self.members: dict[str, tuple[str, Shape]] | None = None
        """Declared members by name, each with its path element; None: objects are not allowed."""
        self.element: Shape | None = None
        """Of undeclared members; None: there may be none."""
        self.granular: bool = False
        """Objects are merged member by member."""
        self.list_kind: str = ""
        """atomic, set, map, or "" if lists are not allowed."""
        self.associative: bool = False
        """Lists are merged item by item."""
        self.item: Shape | None = None
        self.keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = {}
        self.leaf: bool = True
        self.atomic: bool = False
        """Objects or lists are allowed, but merged only as a whole."""
        self.mixed: bool = True
        """A true may become a 1 somewhere in a value, which Python's == does not see."""

    def seal(self) -> "Shape":
        """Derive the summary flags."""
        self.associative = self.list_kind in ("set", "map")
        self.leaf = not (self.granular or self.associative)
        self.atomic = self.leaf and (self.members is not None or bool(self.list_kind))
        return self

    def find_mixed(self) -> "Shape":
        """Derive `mixed` once all parts are known; until then it is true, which is safe."""
        parts = [sub for _, sub in (self.members or {}).values()]
        parts += [sub for sub in (self.element, self.item) if sub is not None]
        self.mixed = self.scalar == "untyped" or any(sub.mixed for sub in parts)
        return self

    def member(self, name: str) -> "Shape | None":
        """Return the shape of a member; None if it may not exist."""
        declared = (self.members or {}).get(name)
        return declared[1] if declared is not None else self.element


def _scalar(kind: str) -> Shape:
    shape = Shape()
    shape.scalar = kind
    return shape.seal().find_mixed()


def _untyped(*, granular: bool) -> Shape:
    """Return a shape for values nothing is known about; it contains itself."""
    shape = _scalar("untyped")
    shape.members, shape.granular, shape.list_kind = {}, granular, "atomic"
    shape.element = shape.item = shape
    return shape.seal()


STRING = _scalar("string")
UNTYPED = _untyped(granular=False)
"""Anything, merged as a whole."""
DEDUCED = _untyped(granular=True)
"""Anything; objects are merged member by member, lists as a whole."""

_PRIMITIVES = {
    "integer": _scalar("numeric"),
    "number": _scalar("numeric"),
    "boolean": _scalar("boolean"),
    "string": STRING,
}
_UNTYPED_SCALAR = _scalar("untyped")


def _map(members: Mapping[str, Shape], *, element: Shape | None = None) -> Shape:
    shape = Shape()
    shape.members = {name: (f"f:{name}", sub) for name, sub in members.items()}
    shape.element, shape.granular = element, True
    return shape.seal().find_mixed()


def _object_meta() -> Shape:
    """metav1.ObjectMeta, for schemas that do not spell it out (most CRDs)."""
    strings = _map({}, element=STRING)
    number = _PRIMITIVES["integer"]
    owner = _map(
        dict.fromkeys(("apiVersion", "kind", "name", "uid"), STRING)
        | dict.fromkeys(("blockOwnerDeletion", "controller"), _PRIMITIVES["boolean"])
    )
    owner.granular = False
    owners = Shape()
    owners.list_kind, owners.keys, owners.item = "map", ("uid",), owner.seal()
    owners.seal().find_mixed()
    finalizers = Shape()
    finalizers.list_kind, finalizers.item = "set", STRING
    finalizers.seal().find_mixed()
    names = ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion")
    return _map(
        {
            **dict.fromkeys(names, STRING),
            "creationTimestamp": STRING,
            "deletionTimestamp": STRING,
            "deletionGracePeriodSeconds": number,
            "generation": number,
            "labels": strings,
            "annotations": strings,
            "ownerReferences": owners,
            "finalizers": finalizers,
            "managedFields": UNTYPED,
        }
    )


OBJECT_META = _object_meta()

_MAX_CACHED = 1024
_shapes: dict[SchemaNode, Shape] = {}


def shape_of(node: SchemaNode) -> Shape:
    """Return the shape of objects of a kind, from the root node of its schema.

    Computed once per node.
    """
    shape = _shapes.get(node)
    if shape is None:
        if len(_shapes) >= _MAX_CACHED:
            # Nodes of deleted and changed CRDs must not pile up.
            _shapes.clear()
        shape = _shapes[node] = _Compiler(node).root
    return shape


class _Compiler:
    """Turns one schema into shapes; recursive schemas become cyclic shapes."""

    def __init__(self, root: SchemaNode) -> None:
        self.known: dict[tuple[int, bool], Shape] = {}
        declared = root.properties.get("metadata")
        self.metadata = OBJECT_META
        if declared is not None and "labels" in declared.properties:
            self.metadata = self.compile(declared, False)
        self.root = self.compile(root, False)
        self.identify(self.root)

    def identify(self, shape: Shape) -> None:
        """Give a resource (the root or an embedded one) the members every resource has."""
        if shape.members is not None:
            shape.members["apiVersion"] = ("f:apiVersion", STRING)
            shape.members["kind"] = ("f:kind", STRING)
            shape.members["metadata"] = ("f:metadata", self.metadata)

    def compile(self, node: SchemaNode, preserve: bool) -> Shape:
        preserve = preserve or node.preserve_unknown
        primitive = _PRIMITIVES.get(node.type)
        if primitive is not None:
            is_either = node.source.get("format") == "int-or-string"
            return _UNTYPED_SCALAR if is_either else primitive
        shape = self.known.get((id(node), preserve))
        if shape is None:
            shape = self.known[id(node), preserve] = Shape()
            self.fill(shape, node, preserve)
        return shape

    def fill(self, shape: Shape, node: SchemaNode, preserve: bool) -> None:
        # The flags must be right before the children are compiled: a recursive
        # schema meets this shape again while it is being filled.
        if node.type != "object":
            shape.list_kind, shape.keys = _list_kind(node)
        if node.type != "array":
            shape.members = {}
            shape.granular = node.map_type != "atomic"
        if node.type == "":
            shape.scalar = "untyped"
        shape.seal()
        if shape.list_kind:
            shape.item = self.compile(node.items, preserve) if node.items is not None else UNTYPED
            shape.key_defaults = _defaults(node.items, shape.keys)
        if shape.members is not None:
            for name, sub in node.properties.items():
                shape.members[name] = (f"f:{name}", self.compile(sub, preserve))
            if node.additional is not None:
                shape.element = self.compile(node.additional, preserve)
            elif node.source.get("additionalProperties") is not False and (
                preserve or not node.properties
            ):
                shape.element = DEDUCED
            if node.embedded:
                self.identify(shape)
        shape.find_mixed()


def _list_kind(node: SchemaNode) -> tuple[str, tuple[str, ...]]:
    if "x-kubernetes-list-type" in node.source:
        return node.list_type, node.list_map_keys
    if "merge" in node.patch_strategy.split(","):
        key = node.patch_merge_key
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()


def _defaults(items: SchemaNode | None, keys: tuple[str, ...]) -> dict[str, Any]:
    defaults = {}
    for key in keys:
        node = items.properties.get(key) if items is not None else None
        if node is not None and node.source.get("default") is not None:
            defaults[key] = node.source["default"]
    return defaults


class ItemError(Exception):
    """An item of a set or list map has no usable key."""


def item_key(shape: Shape, item: Any) -> str:
    """Return the path element of a list item: `k:{"name":"a"}` in a list map, `v:"a"` in a set."""
    if shape.list_kind == "set":
        if item is None or isinstance(item, dict | list):
            raise ItemError(_SET_ERRORS[type(item)])
        return "v:" + key_json(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise ItemError(f"associative list with keys may not have {what}")
    keys = shape.keys
    if len(keys) == 1 and keys[0] in item:
        return f'k:{{"{keys[0]}":{key_json(item[keys[0]])}}}'
    fields = {k: item.get(k, shape.key_defaults.get(k)) for k in sorted(keys)}
    present = [
        f'"{k}":{key_json(v)}' for k, v in fields.items() if k in item or k in shape.key_defaults
    ]
    if not present:
        names = " ".join(map(gotext.quote, keys))
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return "k:{" + ",".join(present) + "}"


_SET_ERRORS: dict[type, str] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}


def key_json(value: Any) -> str:
    """Return a key's value in JSON as Go writes it: compact, HTML characters escaped."""
    if isinstance(value, float):
        return govalue.number(value)
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if "<" in text or ">" in text or "&" in text or not text.isascii():
        return text.translate(_HTML)
    return text


_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
