# SPDX-License-Identifier: Apache-2.0
"""Custom resources: a version of a CRD as a `Resource` of the common pipeline.

A built-in kind has code where a custom one has its schema: decoding prunes, `normalise` defaults,
validation is the compiled schema plus its CEL rules. Everything is compiled when the version is
first used, so that hundreds of installed CRDs cost little until their objects are requested.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from rdd.api import errors, fielderrors, jsonpath, mediatypes, metadata
from rdd.api.fielderrors import FieldError
from rdd.api.fieldselectors import FieldSelector
from rdd.api.types import Object
from rdd.apiserver.crd.conversion import Converter
from rdd.apiserver.crd.decoding import CustomDecoder
from rdd.apiserver.http import tables
from rdd.apiserver.kinds.builtin_strategy import keep
from rdd.apiserver.kinds.strategy import ResourceDefinition, Strategy, TableColumn, Validation
from rdd.apiserver.resources import Convert, Resource
from rdd.apiserver.state import codec
from rdd.apiserver.state.cache import ResourceCache
from rdd.base import gotext
from rdd.schema.columns import Columns
from rdd.schema.crd.columns import scale_errors, selectable_value
from rdd.schema.crd.versions import deprecation_warning
from rdd.schema.defaults import DefaultsTooLarge, apply_defaults
from rdd.schema.node import Node, compile_node
from rdd.schema.prune import prune

if TYPE_CHECKING:
    from rdd.schema.openapi.collector import KindCollector
    from rdd.schema.validate import Validator

# In the order of Kubernetes' discovery documents for custom resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CustomStrategy(Strategy):
    """The hooks of one version of a CRD."""

    has_generation = True
    allow_unconditional_update = False

    def __init__(self, spec: Mapping[str, Any], version: Mapping[str, Any]) -> None:
        self.definition = (spec, version)
        """The spec of the CRD and the entry of this version."""
        self._version = version
        self._kind = spec["names"]["kind"]
        self.api_version = f"{spec['group']}/{version['name']}"
        subresources = version.get("subresources") or {}
        self.has_status = "status" in subresources
        self.scale = subresources.get("scale")
        fields = version.get("selectableFields") or ()
        self._fields = {f["jsonPath"].lstrip("."): f["jsonPath"] for f in fields}
        self.selectable_labels = frozenset(self._fields)

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The OpenAPI v3 schema; a version without one accepts any object."""
        found = (self._version.get("schema") or {}).get("openAPIV3Schema")
        return found or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    @cached_property
    def work_bytes(self) -> int:  # type: ignore[override]
        """An eighth of the schema: an object that lacks all required members has few bytes."""
        return len(orjson.dumps(self._version.get("schema") or {})) // 8

    @cached_property
    def node(self) -> Node:
        """The compiled schema."""
        return compile_node(self.schema)

    @cached_property
    def validator(self) -> "Validator":
        """The compiled value validations."""
        from rdd.schema.validate import compile_validator

        return compile_validator(self.node)

    @cached_property
    def rules(self) -> Any:
        """The compiled CEL rules, None if the schema has none."""
        from rdd.schema.rules import evaluation as rules

        return rules.compile_rules(self.schema)

    @cached_property
    def has_rules(self) -> bool:  # type: ignore[override]
        """Whether the schema has CEL rules."""
        return b'"x-kubernetes-validations"' in orjson.dumps(self._version.get("schema") or {})

    def compile(self) -> None:
        """Compile everything now; otherwise the first request that needs it does."""
        assert self.node is not None
        assert self.validator is not None
        _ = self.rules

    @cached_property
    def table(self) -> Columns:
        """The printer columns."""
        return Columns(self._version.get("additionalPrinterColumns") or ())

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {label: jsonpath.parse_simple(path) for label, path in self._fields.items()}

    def normalise(self, obj: Object) -> None:
        """Default an object; null where it is not allowed counts as absent."""
        try:
            apply_defaults(self.node, obj, max_bytes=codec.MAX_OBJECT_BYTES)
        except DefaultsTooLarge:
            raise codec.too_large() from None

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the status if it is written through /status."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Keep the status on the main endpoint, and everything else on /status."""
        if not self.has_status:
            return
        if subresource == "status":
            meta = dict(old["metadata"])
            for member in ("managedFields", "resourceVersion"):
                if member in obj["metadata"]:
                    meta[member] = obj["metadata"][member]
            kept = {**old, "metadata": meta}
            kept.pop("status", None)
            if "status" in obj:
                kept["status"] = obj["status"]
            obj.clear()
            obj.update(kept)
        elif not subresource:
            keep(obj, old, "status")

    def validate(self, obj: Object, *, found: Sequence[FieldError] = ()) -> Validation:
        """Validate a new object against the schema and its rules."""
        return self._validate(obj, None, found)

    def validate_update(
        self, obj: Object, old: Object, *, subresource: str = "", found: Sequence[FieldError] = ()
    ) -> Validation:
        """Validate a changed object; unchanged values that were invalid before are tolerated."""
        return self._validate(obj, old, found)

    def _validate(self, obj: Object, old: Object | None, found: Sequence[FieldError]) -> Validation:
        errs: list[FieldError] = []
        # Rules that fail on unchanged values become warnings.
        warnings: list[str] = []
        if obj.get("apiVersion") != self.api_version:
            errs.append(
                fielderrors.invalid(
                    "apiVersion", obj.get("apiVersion"), f"must be {self.api_version}"
                )
            )
        if obj.get("kind") != self._kind:
            errs.append(fielderrors.invalid("kind", obj.get("kind"), f"must be {self._kind}"))
        errs += self.validator(obj, old)
        if self.scale is not None:
            errs += scale_errors(self.scale, obj)
        if self.rules is not None:
            from rdd.schema.validate import rules_blocked

            blocked = rules_blocked([*found, *errs])
            if blocked is not None:
                errs.append(blocked)
            else:
                errs += self.rules.validate(obj, old, warnings=warnings)
        meta = obj["metadata"]
        if meta.get("finalizers"):
            warnings += metadata.finalizer_warnings(meta, old["metadata"] if old else None)
        return Validation(errs, warnings)

    def check_field_selector(self, selector: FieldSelector) -> None:
        """Raise BadRequest if the selector uses an undeclared field."""
        self._check_field_selector(selector, has_own_labels=True)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the declared selectable fields as text."""
        return {
            label: selectable_value(jsonpath.lookup(obj, path))
            for label, path in self._paths.items()
        }

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Return the printer columns of an object."""
        return self.table.cells(obj, age=lambda value: tables.age(value, now=now))


class CustomResource(Resource):
    """One served version of a CRD."""

    patch_types = (mediatypes.JSON_PATCH, mediatypes.MERGE_PATCH, mediatypes.APPLY_PATCH)
    has_protobuf = False
    is_routed = False
    strategy: CustomStrategy

    def go_type(self, *, is_list: bool) -> str:
        """Return the type of objects without a Go struct."""
        return f"*unstructured.Unstructured{'List' if is_list else ''}"

    @property
    def item_head(self) -> bytes:
        """Items carry kind and apiVersion."""
        return self.head

    @property
    def empty(self) -> Object | None:
        """A new object has no members by itself."""
        return None

    def convert_with(self, converter: Converter) -> None:
        """Convert between versions by a webhook; stored bodies carry their apiVersion then."""
        self.converter = converter
        self.to_storage = self.from_storage = None
        self.head = b'{"kind":%b,' % orjson.dumps(self.kind)

    def unsupported_patch(self, media: str) -> errors.UnsupportedMediaType:
        """Return the error of a patch type; strategic merge patch gets a text of its own."""
        if media != mediatypes.STRATEGIC_MERGE_PATCH:
            return super().unsupported_patch(media)
        return errors.UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(self.patch_types)
        )

    def list_metadata(self, revision: int, continue_: str, remaining: int) -> dict[str, Any]:
        """Return the metadata of a list; custom lists always have `continue`."""
        meta: dict[str, Any] = {"continue": continue_, "resourceVersion": str(revision)}
        if remaining:
            meta["remainingItemCount"] = remaining
        return meta

    def unknown_subresource(self, name: str) -> NoReturn:
        """Raise the error of a missing object: every subresource that is not enabled has it."""
        raise errors.NotFound.of(self.plural, self.group, name)

    def unsupported_verb(self, verb: str) -> errors.MethodNotAllowed:
        """Return the error of a verb, which names the verb and the resource."""
        name = f"{self.plural}.{self.group}"
        return errors.MethodNotAllowed(
            f"{verb} is not supported on resources of kind {gotext.quote(name)}",
            details={"group": self.group, "kind": self.plural},
        )

    def collect_openapi(self, collector: "KindCollector") -> None:
        """Add the version and the definitions of its schema."""
        collector.add_custom(*self.strategy.definition)


def make_resource(
    crd: Mapping[str, Any],
    version: Mapping[str, Any],
    cache: ResourceCache,
    storage: Mapping[str, Any],
    *,
    compiled: Callable[[str], CustomStrategy | None] = lambda _: None,
) -> CustomResource:
    """Make the resource of a served version; `storage` is the stored version.

    `compiled` returns the hooks of a version if they exist already.
    """
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    name = version["name"]
    strategy = compiled(name) or CustomStrategy(spec, version)
    storage_strategy = compiled(storage["name"]) or CustomStrategy(spec, storage)
    converts = storage_strategy.schema != strategy.schema
    others: dict[str, CustomStrategy] = {}

    def node_of(version: str) -> Node | None:
        if version == name:
            return strategy.node
        for other in spec["versions"]:
            if other["name"] == version:
                return others.setdefault(version, CustomStrategy(spec, other)).node
        return None

    subresources = tuple(s for s in ("status", "scale") if s in (version.get("subresources") or {}))
    kind = ResourceDefinition(
        group=spec["group"],
        version=name,
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        node=lambda: strategy.node,
        strategy=strategy,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
    )
    return CustomResource(
        kind,
        cache=cache,
        decoder=CustomDecoder(names["kind"], strategy.api_version, node_of),
        verbs=_VERBS,
        list_kind=names.get("listKind") or names["kind"] + "List",
        storage_version=storage["name"],
        deprecation=deprecation_warning(spec, name),
        columns=tuple(TableColumn(**c) for c in strategy.table.definitions),
        to_storage=_pruned_by(storage_strategy) if converts else None,
        from_storage=_pruned_by(strategy) if converts else None,
    )


def _pruned_by(strategy: CustomStrategy) -> Convert:
    """Return a conversion without a webhook: it drops the members that the other schema lacks."""

    def convert(obj: Object) -> Object:
        prune(strategy.node, obj, unknown=None)
        return obj

    return convert


def refresher(strategy: CustomStrategy) -> Callable[[bytes], bytes]:
    """Return a function that prunes and defaults stored bytes by the current schema."""

    def refresh(stored: bytes) -> bytes:
        tag = codec.tag_of(stored)
        if tag and tag != strategy.api_version:
            return stored  # in another version, which only the webhook can convert
        obj = codec.decode(stored)
        prune(strategy.node, obj, unknown=None)
        try:
            strategy.normalise(obj)
        except errors.RequestEntityTooLarge:
            return stored  # with its new defaults it could not have been written
        return codec.encode(obj, tag=tag)

    return refresh
