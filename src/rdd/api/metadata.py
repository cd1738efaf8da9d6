# SPDX-License-Identifier: Apache-2.0
"""Rules of metadata that hold for every kind.

The checks and their order are those of Kubernetes' apimachinery. The shape of
metadata (types, unknown members) is the business of `rdd.api.objectmeta`;
everything here expects metadata that was decoded by it. A typical object
(name, namespace, a few labels) is checked in about 2 µs.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rdd.api import fielderrors, name_validation, names
from rdd.api.fielderrors import FieldError
from rdd.api.name_validation import NameErrors
from rdd.api.objectmeta import ORDER as ORDER
from rdd.api.objectmeta import MetadataError as MetadataError
from rdd.api.objectmeta import decode_object_meta as decode_object_meta
from rdd.api.objectmeta import order_metadata as order_metadata
from rdd.api.objectmeta import order_owner_reference
from rdd.api.selectors import validate_labels
from rdd.base import gotext, govalue

Meta = Mapping[str, Any]

ANNOTATIONS_MAX_BYTES = 256 * 1024
MANAGER_MAX_BYTES = 128
SUBRESOURCE_MAX_BYTES = 256
IMMUTABLE = "field is immutable"

_STANDARD_FINALIZERS = frozenset(
    (names.ORPHAN_FINALIZER, names.FOREGROUND_FINALIZER, names.NAMESPACE_FINALIZER)
)

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_PREFIX_MAX = 63 - 5
_choices = random.Random().choices


def generate_name(prefix: str) -> str:
    """Return a name made of a generateName prefix and five random characters."""
    return prefix[:_PREFIX_MAX] + "".join(_choices(_NAME_ALPHABET, k=5))


def validate_object_meta(
    meta: Meta, *, namespaced: bool, name_errors: NameErrors, path: str = "metadata"
) -> list[FieldError]:
    """Return errors of the metadata of a new object, whose name was already generated."""
    errors: list[FieldError] = []
    if prefix := meta.get("generateName"):
        for why in name_errors(prefix, is_prefix=True):
            errors.append(fielderrors.invalid(f"{path}.generateName", prefix, why))
    name = meta.get("name")
    if not name:
        detail = "name or generateName is required"
        errors.append(fielderrors.required(f"{path}.name", detail))
    else:
        for why in name_errors(name, is_prefix=False):
            errors.append(fielderrors.invalid(f"{path}.name", name, why))
    namespace = meta.get("namespace")
    if not namespaced:
        if namespace:
            errors.append(fielderrors.forbidden(f"{path}.namespace", "not allowed on this type"))
    elif not namespace:
        errors.append(fielderrors.required(f"{path}.namespace"))
    else:
        for why in name_validation.dns1123_label_errors(namespace):
            errors.append(fielderrors.invalid(f"{path}.namespace", namespace, why))
    generation = meta.get("generation", 0)
    if generation < 0:
        detail = "must be greater than or equal to 0"
        errors.append(fielderrors.invalid(f"{path}.generation", generation, detail))
    if labels := meta.get("labels"):
        errors += validate_labels(labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations, f"{path}.annotations")
    if references := meta.get("ownerReferences"):
        errors += validate_owner_references(references, f"{path}.ownerReferences")
    if finalizers := meta.get("finalizers"):
        errors += validate_finalizers(finalizers, f"{path}.finalizers")
    if managed := meta.get("managedFields"):
        errors += validate_managed_fields(managed, f"{path}.managedFields")
    return errors


def validate_object_meta_update(
    meta: Meta, old_meta: Meta, path: str = "metadata"
) -> list[FieldError]:
    """Return errors of changed metadata.

    `inherit_system_fields` MUST have run, resourceVersion be set.
    """
    errors: list[FieldError] = []
    if old_meta.get("deletionTimestamp") is not None:
        old = old_meta.get("finalizers") or ()
        new = sorted(set(meta.get("finalizers") or ()).difference(old))
        if new:
            listing = ", ".join(gotext.quote(f) for f in new)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listing}}}"
            )
            errors.append(fielderrors.forbidden(f"{path}.finalizers", detail))
    if not meta.get("resourceVersion"):
        detail = "must be specified for an update"
        errors.append(fielderrors.invalid(f"{path}.resourceVersion", "", detail))
    generation = meta.get("generation", 0)
    if generation < old_meta.get("generation", 0):
        detail = "must not be decremented"
        errors.append(fielderrors.invalid(f"{path}.generation", generation, detail))
    for member, zero in _IMMUTABLE_MEMBERS:
        value = meta.get(member, zero)
        if value != old_meta.get(member, zero):
            errors.append(fielderrors.invalid(f"{path}.{member}", value, IMMUTABLE))
    if labels := meta.get("labels"):
        errors += validate_labels(labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations, f"{path}.annotations")
    if references := meta.get("ownerReferences"):
        errors += validate_owner_references(references, f"{path}.ownerReferences")
    if managed := meta.get("managedFields"):
        errors += validate_managed_fields(managed, f"{path}.managedFields")
    return errors


_IMMUTABLE_MEMBERS: tuple[tuple[str, str | None], ...] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def inherit_system_fields(meta: dict[str, Any], old_meta: Meta) -> None:
    """Take over from the stored object what an update may leave out or not change.

    An absent uid is filled in; creationTimestamp and a set deletionTimestamp stay as they
    are, regardless of the update; an absent grace period is filled in.
    """
    if not meta.get("uid") and (uid := old_meta.get("uid")):
        meta["uid"] = uid
    if (created := old_meta.get("creationTimestamp")) is not None:
        meta["creationTimestamp"] = created
    if (deleted := old_meta.get("deletionTimestamp")) is not None:
        meta["deletionTimestamp"] = deleted
    grace = old_meta.get("deletionGracePeriodSeconds")
    if grace is not None and meta.get("deletionGracePeriodSeconds") is None:
        meta["deletionGracePeriodSeconds"] = grace


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Return errors of annotation keys, and of their size in total."""
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        # keys are qualified names regardless of case
        for why in name_validation.qualified_name_errors(key.lower()):
            errors.append(fielderrors.invalid(path, key, why))
        size += len(key) + len(value)
        if len(errors) > fielderrors.MAX_ERRORS:
            break
    # A character has at most four bytes: only large annotations need an exact count.
    if size * 4 > ANNOTATIONS_MAX_BYTES:
        size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
        if size > ANNOTATIONS_MAX_BYTES:
            errors.append(fielderrors.too_long(path, ANNOTATIONS_MAX_BYTES))
    return errors


def validate_owner_references(references: Sequence[Meta], path: str) -> list[FieldError]:
    """Return errors of owner references; at most one may be the controller."""
    errors: list[FieldError] = []
    controller = ""
    for ref in references:
        version, kind = ref.get("apiVersion", ""), ref.get("kind", "")
        # apiVersion has at most one slash; otherwise there is no version in it
        if not version or version.count("/") > 1 or version.endswith("/"):
            detail = "version must not be empty"
            errors.append(fielderrors.invalid(f"{path}.apiVersion", version, detail))
        for member in ("kind", "name", "uid"):
            if not ref.get(member):
                detail = "must not be empty"
                errors.append(fielderrors.invalid(f"{path}.{member}", "", detail))
        if kind == "Event" and version.lstrip("/") == "v1":
            value = _shown(order_owner_reference(ref))
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(fielderrors.invalid(path, value, detail))
        if ref.get("controller"):
            current = f"{kind}/{ref.get('name', '')}"
            if controller:
                value = _shown([order_owner_reference(r) for r in references])
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                errors.append(fielderrors.invalid(path, value, detail))
            else:
                controller = current
    return errors


def _shown(struct: Any) -> govalue.Verbatim:
    return govalue.Verbatim(govalue.json_text(struct, sort_keys=False))


def validate_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    """Return errors of finalizers on create: qualified names, no contradiction about dependents."""
    errors = [
        fielderrors.invalid(path, finalizer, why)
        for finalizer in finalizers
        for why in name_validation.qualified_name_errors(finalizer)
    ]
    if names.ORPHAN_FINALIZER in finalizers and names.FOREGROUND_FINALIZER in finalizers:
        detail = (
            f"finalizer {names.ORPHAN_FINALIZER} and {names.FOREGROUND_FINALIZER} "
            "cannot be both set"
        )
        errors.append(fielderrors.invalid(path, list(finalizers), detail))
    return errors


def validate_kube_finalizers(meta: Meta, path: str = "metadata") -> list[FieldError]:
    """Return further errors of finalizers in the core and RBAC groups: names need a domain.

    Kubernetes checks this on create and on update. Other groups only warn, see
    `finalizer_warnings`.
    """
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        fielderrors.invalid(f"{path}.finalizers[{i}]", finalizer, detail)
        for i, finalizer in enumerate(meta.get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def finalizer_warnings(meta: Meta, old_meta: Meta | None = None) -> list[str]:
    """Return warnings for custom resources about new finalizers without a domain."""
    finalizers = meta.get("finalizers")
    if not finalizers:
        return []
    old = (old_meta.get("finalizers") or ()) if old_meta else ()
    return [
        f"metadata.finalizers: {gotext.quote(finalizer)}: prefer a domain-qualified finalizer "
        "name to avoid accidental conflicts with other finalizer writers"
        for finalizer in sorted(set(finalizers).difference(old))
        if "/" not in finalizer
        and finalizer not in (names.ORPHAN_FINALIZER, names.FOREGROUND_FINALIZER)
    ]


def deduplicate_owner_references(
    meta: dict[str, Any], *, after_admission: bool = False
) -> list[str]:
    """Drop owner references that repeat another one exactly; returns the warnings to send.

    `after_admission` is set if mutating admission added them.
    """
    references = meta.get("ownerReferences")
    if not references or len(references) < 2:
        return []
    kept: dict[str, Any] = {}
    repeated: list[str] = []
    for ref in references:
        content = repr(sorted(ref.items()))
        if content in kept:
            repeated.append(ref.get("uid", ""))
        else:
            kept[content] = ref
    if not repeated:
        return []
    meta["ownerReferences"] = list(kept.values())
    when = " after mutating admission happens" if after_admission else ""
    return [
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(repeated)}"
    ]


def validate_managed_fields(entries: Sequence[Meta], path: str) -> list[FieldError]:
    """Return errors of managedFields sent by a client."""
    errors: list[FieldError] = []
    for i, entry in enumerate(entries):
        at = f"{path}[{i}]"
        if (operation := entry.get("operation", "")) not in ("Apply", "Update"):
            detail = "must be `Apply` or `Update`"
            errors.append(fielderrors.invalid(f"{at}.operation", operation, detail))
        if (kind := entry.get("fieldsType", "")) not in ("", "FieldsV1"):
            errors.append(fielderrors.invalid(f"{at}.fieldsType", kind, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), f"{at}.manager")
        if len(entry.get("subresource", "").encode()) > SUBRESOURCE_MAX_BYTES:
            errors.append(fielderrors.too_long(f"{at}.subresource", SUBRESOURCE_MAX_BYTES))
    return errors


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """Return errors of the name of a field manager."""
    if manager.isascii() and manager.isprintable() and len(manager) <= MANAGER_MAX_BYTES:
        return []
    errors: list[FieldError] = []
    if len(manager.encode()) > MANAGER_MAX_BYTES:
        errors.append(fielderrors.too_long(path, MANAGER_MAX_BYTES))
    position = 0
    for char in manager:
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(fielderrors.invalid(path, manager, detail))
        position += len(char.encode())
    return errors
