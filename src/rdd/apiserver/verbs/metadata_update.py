# SPDX-License-Identifier: Apache-2.0
"""System metadata in requests: what the server drops, keeps, counts and checks."""

from typing import Any

from rdd.api import errors, fielderrors, metadata
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.resources import Resource
from rdd.apiserver.state.entries import CacheEntry
from rdd.base import gotext

_SYSTEM = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


def wipe_system_metadata(meta: dict[str, Any]) -> None:
    """Drop what only the server sets from a new object, before admission sees it.

    As in Kubernetes, an update or apply that creates keeps it.
    """
    for member in _SYSTEM:
        meta.pop(member, None)


def keep_system_metadata(meta: dict[str, Any], old_meta: dict[str, Any], entry: CacheEntry) -> None:
    """Restore the members that clients cannot change."""
    metadata.inherit_system_fields(meta, old_meta)
    meta.pop("selfLink", None)
    meta["resourceVersion"] = str(entry.revision)
    if old_meta.get("generation") is None:
        meta.pop("generation", None)
    else:
        meta["generation"] = old_meta["generation"]


def find_errors(
    resource: Resource, meta: dict[str, Any], old_meta: dict[str, Any]
) -> list[FieldError]:
    """Return the errors of changed metadata, as often as Kubernetes reports them.

    The pipeline of Kubernetes checks the metadata as that of a new object and as that of a
    changed one; the kind then repeats either check or both.
    """
    changed = metadata.validate_object_meta_update(meta, old_meta)
    if not changed and not meta.get("finalizers"):
        return []  # Only finalizers have a format that the check of a change leaves out.
    whole = metadata.validate_object_meta(
        meta, namespaced=resource.namespaced, name_errors=_any_name
    )
    checks = {"whole": whole, "changed": changed}
    found = whole + changed
    for check in resource.strategy.repeated_metadata_checks:
        found += checks[check]
    return found


def parse_version(version: str) -> int:
    """Return a resourceVersion as a number; like Kubernetes, raise a server error for others."""
    why = "invalid syntax"
    if version.isascii() and version.isdigit():
        number = int(version) if len(version) <= 20 else 2**64
        if number < 2**64:
            return number
        why = "value out of range"
    text = f"strconv.ParseUint: parsing {gotext.quote(version)}: {why}"
    raise errors.ApiError(text, code=500, reason="")


def is_version(text: str) -> bool:
    """Return whether a resourceVersion names a state; Kubernetes ignores any other text here."""
    try:
        return parse_version(text) != 0
    except errors.ApiError:
        return False


def check_version(resource: Resource, name: str, version: str | None, entry: CacheEntry) -> None:
    """Raise Conflict if the resourceVersion of a write is not that of the stored object."""
    if not version or version == "0":
        if not resource.strategy.allow_unconditional_update:
            error = fielderrors.invalid(
                "metadata.resourceVersion", 0, "must be specified for an update"
            )
            raise errors.Invalid.of(resource.plural, resource.group, name, [error])
        return
    if parse_version(version) != entry.revision:
        raise errors.Conflict.of(resource.plural, resource.group, name)


def check_uid(resource: Resource, namespace: str, name: str, given: str | None, uid: str) -> None:
    """Raise Conflict if a uid is given and is not that of the object (empty: none exists)."""
    if not given or given == uid:
        return
    key = resource.cache.key(namespace, name)
    raise errors.Conflict.of(
        resource.plural,
        resource.group,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, "
        f"UID in object meta: {uid}",
    )


def _any_name(name: str, *, is_prefix: bool) -> list[str]:
    return []


def count_generation(resource: Resource, obj: Object, old: Object) -> None:
    """Increment the generation if more than metadata and status changed."""
    if not resource.strategy.has_generation:
        return
    ignored = {"kind", "apiVersion", "metadata"}
    if resource.strategy.has_status:
        ignored.add("status")
    names = (obj.keys() | old.keys()) - ignored
    if any(obj.get(n) != old.get(n) for n in names):
        obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
