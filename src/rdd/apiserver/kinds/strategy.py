# SPDX-License-Identifier: Apache-2.0
"""The hooks by which a kind customises the common request pipeline.

The pipeline (create.py, update.py, …) implements what all kinds share: decoding, metadata,
admission, managed fields, storage, watch. A `Strategy` adds the behaviour of one kind, like the
registry strategies of Kubernetes. The default implementation is a kind without special behaviour.

Objects are plain dicts in the version of the request. Hooks modify the given object in place;
`old` objects MUST NOT be modified.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdd.api import name_validation
from rdd.api.fielderrors import FieldError
from rdd.api.fieldselectors import FieldSelector
from rdd.api.types import Object
from rdd.schema.node import Node


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the Table representation, as kubectl prints it."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating an object: errors reject it, warnings go to the client."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Texts for Warning headers; they count only if there are no errors."""


class Strategy:
    """The hooks of one kind."""

    allow_create_on_update = False
    """PUT to a missing name creates the object."""

    allow_unconditional_update = True
    """PUT without a resourceVersion overwrites the stored object."""

    has_generation = False
    """metadata.generation is set: 1 on create, +1 when more than metadata and status change."""

    work_bytes: int = 0
    """The size of a schema that makes even small objects expensive."""

    has_rules = False
    """Validation may evaluate CEL, which can take long for the smallest object."""

    has_status = False
    """The status has its own endpoint: the main endpoint ignores status, /status the rest."""

    keeps_metadata_for_status = True
    """Writes to /status do not change labels, annotations, owners and finalizers."""

    deletes_in_two_steps = False
    """DELETE only marks the object; /finalize or a controller removes it."""

    repeated_metadata_checks: tuple[str, ...] = ("changed",)
    """The checks of metadata that the validation of an update repeats: `whole`, `changed`."""

    validates_metadata = True
    """The kind validates metadata itself; otherwise its errors follow those of the rest."""

    has_dependents = True
    """Objects can own others, so deletion has a propagation policy (not events)."""

    returns_deleted = False
    """DELETE returns the deleted object instead of a Status."""

    scale: Mapping[str, Any] | None = None
    """The paths of the scale subresource (`specReplicasPath` …); None: there is no /scale."""

    error_group: str | None = None
    """The group under which errors name the kind, if it is not its own."""

    ttl_s: float = 0
    """Objects expire after this time (events)."""

    durable = True
    """False: a write may be lost if the machine (not the process) crashes (events)."""

    columns: tuple[TableColumn, ...] = (
        TableColumn("Name", format="name"),
        TableColumn("Age"),
    )
    """Columns of the Table form; `cells` returns their values."""

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Return the errors of a name or generateName prefix; DNS subdomain by default."""
        return name_validation.dns1123_subdomain_errors(name, is_prefix=is_prefix)

    def normalise(self, obj: Object) -> None:
        """Default an object and derive the members that are stored with it.

        Runs after decoding and again after mutating admission.
        """

    def prepare_for_create(self, obj: Object) -> None:
        """Drop the members that a client may not set and set those of the server."""

    def validate(self, obj: Object, *, found: Sequence[FieldError] = ()) -> Validation:
        """Validate a new object; the pipeline has validated metadata and `found` its errors."""
        return Validation()

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Revert the members that this request may not change."""

    def validate_update(
        self, obj: Object, old: Object, *, subresource: str = "", found: Sequence[FieldError] = ()
    ) -> Validation:
        """Validate a changed object; usually validate() plus immutability."""
        return self.validate(obj, found=found)

    def is_held(self, obj: Object) -> bool:
        """Return whether finalizers keep an object that is being deleted."""
        return bool(obj["metadata"].get("finalizers"))

    def begin_deletion(self, obj: Object, *, now: str) -> bool:
        """Mark an object that is deleted in two steps; return whether it is kept for now."""
        return True

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the values of the field-selector labels of this kind.

        MUST contain a value for every label of `selectable_labels`.
        """
        return {}

    selectable_labels: frozenset[str] = frozenset()
    """Field-selector labels this kind supports besides metadata.name and metadata.namespace."""

    def check_field_selector(self, selector: FieldSelector) -> None:
        """Raise BadRequest if the selector uses a label this kind does not support."""
        self._check_field_selector(selector, has_own_labels=bool(self.selectable_labels))

    def _check_field_selector(self, selector: FieldSelector, *, has_own_labels: bool) -> None:
        supported = {"metadata.name", "metadata.namespace", *self.selectable_labels}
        selector.check(supported, has_own_labels=has_own_labels)

    def bookmark(self, obj: Object) -> Object:
        """Return the object of a bookmark event with all members that are never omitted."""
        return obj

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Return the Table cells of an object, one per column (see http.tables for ages)."""
        from rdd.apiserver.http import tables

        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), tables.age(meta.get("creationTimestamp"), now=now)]


@dataclass(slots=True)
class ResourceDefinition:
    """The names, shape and strategy of a kind, built-in or custom."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    node: Node | Callable[[], Node]
    """The shape, with metadata, or a factory of it; used for pruning, patches and apply."""
    strategy: Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    """status, finalize, token, scale …"""
    definition: str = ""
    """Name of the OpenAPI definition, e.g. io.k8s.api.core.v1.ConfigMap."""

    @property
    def api_version(self) -> str:
        """The group and version as objects carry them."""
        return f"{self.group}/{self.version}" if self.group else self.version
