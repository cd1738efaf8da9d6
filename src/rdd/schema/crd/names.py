# SPDX-License-Identifier: Apache-2.0
"""Validation of names in a CustomResourceDefinition: group, kind, resource, versions, approval."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rdd.api import name_validation
from rdd.api.fielderrors import FieldError, invalid, not_supported, required
from rdd.schema.embedded import kind_errors

APPROVAL = "api-approved.kubernetes.io"
"""The annotation that groups of the Kubernetes project require."""
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def group_errors(group: str) -> list[FieldError]:
    """Return the errors of spec.group: a domain with at least one dot."""
    if not group:
        return [required("spec.group")]
    found = name_validation.dns1123_subdomain_errors(group)
    if found:
        return [invalid("spec.group", group, ",".join(found))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def choice_errors(field: str, value: str, choices: Sequence[str]) -> list[FieldError]:
    """Return the errors of a required text with a closed set of values."""
    if not value:
        return [required(field)]
    return [] if value in choices else [not_supported(field, value, choices)]


def version_name_errors(name: str, *, field: str) -> list[FieldError]:
    """Return the errors of a version name: a DNS label that starts with a letter."""
    found = name_validation.dns1035_label_errors(name)
    return [invalid(field, name, ",".join(found))] if found else []


def required_names_errors(spec_names: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of missing names in spec.names (status.acceptedNames may omit them)."""
    members = ("plural", "singular", "kind", "listKind")
    return [required(f"spec.names.{m}") for m in members if not spec_names.get(m)]


def names_errors(value: Mapping[str, Any], *, field: str) -> list[FieldError]:
    """Return the errors of a set of names, in spec or in status."""
    errors: list[FieldError] = []
    for member in ("plural", "singular"):
        text = value.get(member) or ""
        if text:
            errors += version_name_errors(text, field=f"{field}.{member}")
    kind, list_kind = value.get("kind") or "", value.get("listKind") or ""
    if kind:
        errors += kind_errors(kind, field=f"{field}.kind")
    if list_kind:
        errors += kind_errors(list_kind, field=f"{field}.listKind")
    for position, text in enumerate(value.get("shortNames") or ()):
        errors += version_name_errors(text, field=f"{field}.shortNames[{position}]")
    if kind and kind == list_kind:
        detail = "kind and listKind may not be the same"
        errors.append(invalid(f"{field}.listKind", list_kind, detail))
    for position, text in enumerate(value.get("categories") or ()):
        errors += version_name_errors(text, field=f"{field}.categories[{position}]")
    return errors


def stored_versions_errors(
    stored: list[str] | None, versions: Sequence[Mapping[str, Any]]
) -> list[FieldError]:
    """Return the errors of storedVersions: each must exist, and one is the storage version."""
    field = "status.storedVersions"
    if not stored:
        return [invalid(field, stored, "must have at least one stored version")]
    errors: list[FieldError] = []
    left = {name: position for position, name in enumerate(stored)}
    for version in versions:
        if left.pop(version["name"], None) is None and version.get("storage"):
            detail = f"must have the storage version {version['name']}"
            errors.append(invalid(field, stored, detail))
    for name, position in left.items():
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain "
            "in spec.versions until a storage migration ensures no data remains persisted in "
            f"{name} and removes {name} from status.storedVersions"
        )
        errors.append(invalid(f"{field}[{position}]", name, detail))
    return errors


def approval_errors(crd: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
    """Return the errors of the API approval that groups of the Kubernetes project require.

    An unchanged state is accepted.
    """
    group = crd["spec"].get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    state, reason = _approval(crd)
    if old is not None and _approval(old)[0] == state:
        return []
    field = f"metadata.annotations[{APPROVAL}]"
    if state == "missing":
        return [required(field, reason)]
    if state == "invalid":
        return [invalid(field, crd["metadata"]["annotations"][APPROVAL], reason)]
    return []


def _approval(crd: Mapping[str, Any]) -> tuple[str, str]:
    text = (crd["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    if not text:
        return "missing", f'protected groups must have approval annotation "{APPROVAL}", {_SEE}'
    if text.startswith("unapproved"):
        return "bypassed", ""
    try:
        url = urlsplit(text)
        if url.scheme and url.netloc:
            return "approved", ""
    except ValueError:
        pass
    reason = (
        f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a '
        f'reason starting with "unapproved", {_SEE}'
    )
    return "invalid", reason
