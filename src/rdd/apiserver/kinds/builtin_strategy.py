# SPDX-License-Identifier: Apache-2.0
"""The common base of the strategies of built-in kinds.

Besides the hooks of every strategy, a built-in kind defines its verbs, the resource whose storage
it shares, if any, and the group under which its errors name it. `StatusStrategy` implements the
usual division between the main endpoint and /status.
"""

from collections.abc import Sequence
from typing import Any

from rdd.api import metadata
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.http import tables
from rdd.apiserver.kinds.strategy import Strategy, TableColumn, Validation
from rdd.schema.builtin import texts

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

NAME = TableColumn("Name", format="name", description=texts.NAME)
AGE = TableColumn("Age", description=texts.CREATION_TIMESTAMP)
CREATED_AT = TableColumn("Created At", "date", description=texts.CREATION_TIMESTAMP)


class BuiltinStrategy(Strategy):
    """The default hooks of a built-in kind."""

    verbs: tuple[str, ...] = ALL_VERBS

    storage: tuple[str, str] | None = None
    """Group and plural of the resource whose storage the kind uses; None for its own storage."""

    qualified_finalizers = False
    """Finalizers need a domain (required by the core and RBAC groups)."""

    columns: tuple[TableColumn, ...] = (NAME, AGE)

    def to_storage(self, obj: Object) -> Object:
        """Convert an object to the version in which it is stored."""
        return obj

    def from_storage(self, obj: Object) -> Object:
        """Convert a stored object to this version."""
        return obj

    def validate(self, obj: Object, *, found: Sequence[FieldError] = ()) -> Validation:
        """Validate a new object."""
        return self._validation(obj, self.errors(obj))

    def validate_update(
        self, obj: Object, old: Object, *, subresource: str = "", found: Sequence[FieldError] = ()
    ) -> Validation:
        """Validate a changed object."""
        errors = self.update_errors(obj, old, subresource=subresource)
        if self.qualified_finalizers and obj["metadata"].get("finalizers"):
            # Each repeated check of metadata includes that of finalizers.
            for _ in self.repeated_metadata_checks[1:]:
                errors += self.finalizer_errors(obj)
        return self._validation(obj, errors)

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
        """Return the errors of finalizers without a domain, in the groups that require one."""
        if self.qualified_finalizers and obj["metadata"].get("finalizers"):
            return metadata.validate_kube_finalizers(obj["metadata"])
        return []

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Return name, cells of the kind and age."""
        meta = obj.get("metadata") or {}
        return [
            meta.get("name", ""),
            *self.own_cells(obj),
            tables.age(meta.get("creationTimestamp"), now=now),
        ]

    def own_cells(self, obj: Object) -> list[Any]:
        """Return the cells between name and age."""
        return []


class CreatedAtStrategy(BuiltinStrategy):
    """A kind whose table has the creation time instead of the age."""

    columns = (NAME, CREATED_AT)

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        meta = obj.get("metadata") or {}
        return [meta.get("name", ""), meta.get("creationTimestamp")]


class StatusStrategy(BuiltinStrategy):
    """A kind whose status is written only through /status."""

    has_status = True

    keeps_metadata_for_status = False

    def prepare_for_update(self, obj: Object, old: Object, *, subresource: str = "") -> None:
        """Revert the half of the object that the endpoint does not write."""
        if subresource == "status":
            keep(obj, old, "spec")
            if self.keeps_metadata_for_status:
                reset_metadata_for_status(obj, old)
        else:
            keep(obj, old, "status")


def keep(obj: Object, old: Object, member: str) -> None:
    """Set a member to its value in the stored object."""
    if member in old:
        obj[member] = old[member]
    else:
        obj.pop(member, None)


def reset_metadata_for_status(obj: Object, old: Object) -> None:
    """Revert the metadata that a write of the status may not change."""
    meta = obj["metadata"] = dict(obj["metadata"])
    for member in ("labels", "annotations", "ownerReferences", "finalizers", "generation"):
        keep(meta, old["metadata"], member)


def immutable_error(path: str, new: Any, old: Any) -> list[FieldError]:
    """Return the error of a changed immutable value."""
    if new == old:
        return []
    return [FieldError("Invalid", path, new, metadata.IMMUTABLE)]
