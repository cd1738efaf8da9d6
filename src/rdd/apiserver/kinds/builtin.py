# SPDX-License-Identifier: Apache-2.0
"""What the strategies of built-in kinds have in common.

Besides the hooks of every strategy, a built-in kind says which verbs it has,
where it is stored if another resource shares the storage, and under which group
its errors name it. `StatusStrategy` is the usual division of labour between the
main endpoint and /status.
"""

from typing import Any

from rdd.api import metadata
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.http import tables
from rdd.apiserver.kinds.strategy import Column, Strategy, Validation
from rdd.schema.builtin import texts

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

NAME = Column("Name", format="name", description=texts.NAME)
AGE = Column("Age", description=texts.CREATION_TIMESTAMP)
CREATED_AT = Column("Created At", "date", description=texts.CREATION_TIMESTAMP)


class BuiltinStrategy(Strategy):
    """Hooks of a built-in kind without peculiarities."""

    verbs: tuple[str, ...] = ALL_VERBS

    storage: tuple[str, str] | None = None
    """Group and plural of the resource in whose storage the objects are; None for their own."""

    qualified_finalizers = False
    """Finalizers need a domain (the core and RBAC groups insist)."""

    columns: tuple[Column, ...] = (NAME, AGE)

    def to_storage(self, obj: Object) -> Object:
        """The object in the version in which it is stored."""
        return obj

    def from_storage(self, obj: Object) -> Object:
        """A stored object in this version."""
        return obj

    def validate(self, obj: Object) -> Validation:
        """Validate a new object."""
        return self._validation(obj, self.errors(obj))

    def validate_update(self, obj: Object, old: Object, *, subresource: str = "") -> Validation:
        """Validate a changed object."""
        return self._validation(obj, self.update_errors(obj, old, subresource=subresource))

    def _validation(self, obj: Object, errors: list[FieldError]) -> Validation:
        # Warnings are computed for valid objects only, so hooks can rely on the kind's rules.
        return Validation(errors, [] if errors else self.warnings(obj))

    def errors(self, obj: Object) -> list[FieldError]:
        """Return the errors of a new object beyond its metadata."""
        return self.finalizer_errors(obj)

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the errors of a changed object; usually errors() plus immutability."""
        return self.errors(obj)

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about a valid object."""
        return []

    def finalizer_errors(self, obj: Object) -> list[FieldError]:
        """Errors of finalizers that have no domain, in the groups that insist."""
        if self.qualified_finalizers and obj["metadata"].get("finalizers"):
            return metadata.validate_kube_finalizers(obj["metadata"])
        return []

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Name, what the kind shows, and age."""
        meta = obj.get("metadata") or {}
        return [
            meta.get("name", ""),
            *self.own_cells(obj),
            tables.age(meta.get("creationTimestamp"), now=now),
        ]

    def own_cells(self, obj: Object) -> list[Any]:
        """The cells between name and age."""
        return []


class CreatedAtStrategy(BuiltinStrategy):
    """A kind whose table shows the time of creation instead of the age."""

    columns = (NAME, CREATED_AT)

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Name and time of creation."""
        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), meta.get("creationTimestamp")]


class StatusStrategy(BuiltinStrategy):
    """A kind whose status is written through /status only."""

    has_status = True

    keeps_metadata_for_status = False
    """Writes to /status leave labels, annotations, owners and finalizers alone."""

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Keep the half that this endpoint does not write."""
        if subresource == "status":
            keep(obj, old, "spec")
            if self.keeps_metadata_for_status:
                reset_metadata_for_status(obj, old)
        else:
            keep(obj, old, "status")


def keep(obj: Object, old: Object, member: str) -> None:
    """Take a member from the stored object."""
    if member in old:
        obj[member] = old[member]
    else:
        obj.pop(member, None)


def reset_metadata_for_status(obj: Object, old: Object) -> None:
    """Undo changes of the metadata that a write of the status may not make."""
    meta = obj["metadata"] = dict(obj["metadata"])
    for member in ("labels", "annotations", "ownerReferences", "finalizers", "generation"):
        keep(meta, old["metadata"], member)


def immutable_error(path: str, new: Any, old: Any) -> list[FieldError]:
    """The error of a value that must not change, if it did."""
    if new == old:
        return []
    return [FieldError("Invalid", path, new, metadata.IMMUTABLE)]
