# SPDX-License-Identifier: Apache-2.0
"""What differs between kinds: the hooks a kind hangs into the one pipeline.

The pipeline (create.py, update.py, …) does what all kinds share: decoding,
metadata, admission, managed fields, storage, watch. A `Strategy` adds what is
special to one kind, the way Kubernetes' registry strategies do. The default
implementation is a kind without peculiarities.

Objects are plain dicts in the version of the request. Hooks change the object
they are given in place; `old` objects MUST NOT be changed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdd.api.fielderrors import FieldError
from rdd.api.fieldselectors import FieldSelector
from rdd.api.types import Object
from rdd.schema.node import Node


@dataclass(frozen=True, slots=True)
class Column:
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
    """Hooks of one kind; override what differs."""

    allow_create_on_update = False
    """PUT (and apply without the object) to a missing name creates it."""

    allow_unconditional_update = True
    """PUT without a resourceVersion overwrites whatever is there."""

    has_generation = False
    """metadata.generation is kept: 1 on create, +1 when more than metadata and status change."""

    has_status = False
    """There is a status subresource: the main endpoint ignores status, /status ignores the rest."""

    deletes_in_two_steps = False
    """DELETE only marks the object; it goes when /finalize (or a controller) says so."""

    returns_deleted = False
    """DELETE answers with the deleted object instead of a Status."""

    scale: Mapping[str, Any] | None = None
    """The paths of the scale subresource (`specReplicasPath` …); None: there is no /scale."""

    error_group: str | None = None
    """The group by which errors name the kind, if it is not its own."""

    ttl_s: float = 0
    """Objects disappear by themselves after this time (events)."""

    durable = True
    """False: a write may be lost if the machine (not the process) crashes (events)."""

    columns: tuple[Column, ...] = (
        Column("Name", format="name"),
        Column("Age"),
    )
    """Columns of the Table form; `cells` yields their values."""

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Why a name (or a generateName prefix) is not allowed; DNS subdomain by default."""
        from rdd.api import name_validation

        return name_validation.dns1123_subdomain_errors(name, is_prefix=is_prefix)

    def normalise(self, obj: Object) -> None:
        """Bring an object into the form in which it is stored: defaults and derived members.

        Runs after decoding and again after mutating admission.
        """

    def prepare_for_create(self, obj: Object) -> None:
        """Drop what a creator may not set, add what the server sets."""

    def validate(self, obj: Object) -> Validation:
        """Validate a new object; metadata is validated by the pipeline."""
        return Validation()

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Carry over from the stored object what this request may not change."""

    def validate_update(self, obj: Object, old: Object, *, subresource: str = "") -> Validation:
        """Validate a changed object; usually validate() plus immutability."""
        return self.validate(obj)

    def is_held(self, obj: Object) -> bool:
        """Whether finalizers keep an object that is being deleted."""
        return bool(obj["metadata"].get("finalizers"))

    def begin_deletion(self, obj: Object, *, now: str) -> bool:
        """Mark an object that is deleted in two steps; whether it stays for now."""
        return True

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Values of field-selector labels other than metadata.name and metadata.namespace.

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
        """A bookmark event's object: members that are never left out are added."""
        return obj

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """The Table cells of an object, one per column (see apiserver.tables for ages)."""
        from rdd.apiserver.http import tables

        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), tables.age(meta.get("creationTimestamp"), now=now)]


@dataclass(slots=True)
class ResourceDefinition:
    """A built-in kind: its names, shape and strategy. CRDs become the same thing."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    node: Node | Callable[[], Node]
    """The shape, with metadata, or what makes it; used for pruning, patches and apply."""
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
