# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of CustomResourceDefinitions on create and update.

Definitions arrive decoded (see rdd.schema.builtin.typed): members have their types and nulls are
dropped. `normalise` sets defaults, `prepare_for_create` and `prepare_for_update` keep the status,
`crd_errors` and `crd_update_errors` validate, `crd_warnings` reports accepted but probably
unintended settings.

Kubernetes validates an internal form in which schema, subresources, columns and selectable fields
that are equal in all versions (always, if there is only one) are members of spec. Error paths show
that form, so the same lifting is done here: `spec.validation.openAPIV3Schema…` instead of
`spec.versions[0].schema.openAPIV3Schema…`.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api.fielderrors import FieldError, invalid, required
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.schema.crd.columns import columns_errors, selectable_fields_errors, subresources_errors
from rdd.schema.crd.conversion import ca_bundle_errors, conversion_errors, has_known_review
from rdd.schema.crd.dump import version_list
from rdd.schema.crd.names import (
    approval_errors,
    choice_errors,
    group_errors,
    names_errors,
    required_names_errors,
    stored_versions_errors,
    version_name_errors,
)
from rdd.schema.crd.schema import CheckRules, schema_errors, unrecognized_formats

_LIFTED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def normalise(crd: Object) -> None:
    """Default a definition: singular, listKind, conversion, webhook port."""
    spec = crd["spec"]
    names = spec["names"]
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    config = (spec["conversion"].get("webhook") or {}).get("clientConfig") or {}
    service = config.get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    status = crd.get("status")
    if status is not None and not status.get("storedVersions"):
        stored = [v["name"] for v in _versions(crd) if v.get("storage")][:1]
        if stored:
            crd["status"] = {**status, "storedVersions": stored}


def prepare_for_create(crd: Object) -> None:
    """Set the initial status of a definition; the status of the client is ignored."""
    crd["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [v["name"] for v in _versions(crd) if v.get("storage")][:1] or None,
    }


def prepare_for_update(crd: Object, old: Mapping[str, Any]) -> None:
    """Keep the stored status and add a new storage version to storedVersions."""
    status = dict(old.get("status") or {})
    storage = next((v["name"] for v in _versions(crd) if v.get("storage")), None)
    stored = list(status.get("storedVersions") or ())
    if storage is not None and storage not in stored:
        stored.append(storage)
    status["storedVersions"] = stored
    crd["status"] = status


def prepare_for_status_update(crd: Object, old: Mapping[str, Any]) -> None:
    """Revert everything except the status."""
    crd["spec"] = old["spec"]


def is_established(crd: Mapping[str, Any]) -> bool:
    """Return whether the kind of a definition is served."""
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in (crd.get("status") or {}).get("conditions") or ()
    )


def crd_errors(
    crd: Mapping[str, Any], *, check_rules: CheckRules | None = None
) -> list[FieldError]:
    """Return the errors of a new definition beyond its metadata."""
    spec = crd["spec"]
    errors: list[FieldError] = []
    wanted = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    for member in ("generateName", "name"):
        name = (crd.get("metadata") or {}).get(member) or ""
        if name and name != wanted:
            detail = 'must be spec.names.plural+"."+spec.group'
            errors.append(invalid(f"metadata.{member}", name, detail))
    errors += _spec_errors(spec, check_rules, require_known_review=True, check_ca_bundle=False)
    errors += _status_errors(crd)
    errors += approval_errors(crd, None)
    return errors + _preserve_errors(spec, None)


def crd_update_errors(
    crd: Mapping[str, Any], old: Mapping[str, Any], *, check_rules: CheckRules | None = None
) -> list[FieldError]:
    """Return the errors of a changed definition beyond its metadata.

    Accepted values remain accepted: the stored definition passed the same checks, so only
    checks that depend on state are lenient.
    """
    spec, old_spec = crd["spec"], old["spec"]
    established = is_established(old)
    errors = _spec_errors(
        spec,
        check_rules,
        require_known_review=has_known_review(old_spec.get("conversion")),
        check_ca_bundle=established and not _has_broken_bundle(old_spec),
        is_update=True,
    )
    names, old_names = spec["names"], old_spec["names"]
    fixed = [
        ("spec.group", spec.get("group"), old_spec.get("group")),
        ("spec.names.plural", names.get("plural"), old_names.get("plural")),
    ]
    if established:
        fixed[:0] = [
            ("spec.scope", spec.get("scope"), old_spec.get("scope")),
            ("spec.names.kind", names.get("kind"), old_names.get("kind")),
        ]
    for field, new, before in fixed:
        if new != before:
            errors.append(invalid(field, new, "field is immutable"))
    errors += _status_errors(crd)
    errors += approval_errors(crd, old)
    return errors + _preserve_errors(spec, old_spec)


def crd_status_update_errors(crd: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors of a write to the status subresource."""
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    return names_errors(accepted, field="status.acceptedNames")


def crd_warnings(crd: Mapping[str, Any]) -> list[str]:
    """Return the warnings about a definition: string formats that are not validated."""
    found: dict[str, None] = {}
    for version in _versions(crd):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            found.update(dict.fromkeys(unrecognized_formats(schema)))
    return [f"unrecognized format {quote(name)}" for name in found]


def _versions(crd: Mapping[str, Any]) -> list[Any]:
    return crd["spec"].get("versions") or []


def _is_empty(value: Any) -> bool:
    return value is None or value == []


def _lifted(spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the settings that are equal in all versions, and the versions without them."""
    versions = [dict(v) for v in spec.get("versions") or ()]
    top: dict[str, Any] = {}
    for member in _LIFTED:
        values = [v.get(member) for v in versions]
        same = all(v == values[0] or (_is_empty(v) and _is_empty(values[0])) for v in values)
        if versions and same:
            if not _is_empty(values[0]):
                top[member] = values[0]
            for version in versions:
                version.pop(member, None)
    return top, versions


def _spec_errors(
    spec: Mapping[str, Any],
    check_rules: CheckRules | None,
    *,
    require_known_review: bool,
    check_ca_bundle: bool,
    is_update: bool = False,
) -> list[FieldError]:
    top, versions = _lifted(spec)
    names = spec.get("names") or {}
    errors = group_errors(spec.get("group") or "")
    scope = spec.get("scope") or ""
    errors += choice_errors("spec.scope", scope, ("Cluster", "Namespaced"))
    if (top.get("schema") or {}).get("openAPIV3Schema") is None:
        for position, version in enumerate(versions):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                field = f"spec.versions[{position}].schema.openAPIV3Schema"
                errors.append(required(field))
    any_status = any(
        (v.get("subresources") or {}).get("status") is not None for v in [*versions, top]
    )
    for position, version in enumerate(versions):
        field = f"spec.versions[{position}]"
        errors += version_name_errors(version["name"], field=f"{field}.name")
        subresources = version.get("subresources") or top.get("subresources") or {}
        errors += _deprecation_errors(version, field)
        errors += _version_errors(
            version,
            field,
            f"{field}.schema",
            check_rules,
            has_status=subresources.get("status") is not None,
        )
    # A new definition without versions has no list, a patched one an empty list.
    shown = version_list(versions if versions or is_update else None)
    if len({v["name"] for v in versions}) < len(versions):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(v.get("storage")) for v in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", shown, detail))
    if versions and versions[0]["name"]:
        errors += version_name_errors(versions[0]["name"], field="spec.version")
    errors += required_names_errors(names)
    errors += names_errors(names, field="spec.names")
    errors += _version_errors(top, "spec", "spec.validation", check_rules, has_status=any_status)
    if spec.get("preserveUnknownFields") and any(
        _has_defaults((v.get("schema") or {}).get("openAPIV3Schema")) for v in [*versions, top]
    ):
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    conversion = spec.get("conversion")
    strategy = (conversion or {}).get("strategy") or ""
    if spec.get("preserveUnknownFields") and strategy and strategy != "None":
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", strategy, detail))
    return errors + conversion_errors(
        conversion, require_known_review=require_known_review, check_ca_bundle=check_ca_bundle
    )


def _has_defaults(schema: Any) -> bool:
    """Return whether a schema or one below it has a default."""
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    if not isinstance(schema, Mapping):
        return False
    if schema.get("default") is not None:
        return True
    maps = ("properties", "patternProperties", "definitions", "dependencies")
    below = ("items", "additionalItems", "additionalProperties", "not", "allOf", "anyOf", "oneOf")
    return any(_has_defaults(list((schema.get(m) or {}).values())) for m in maps) or any(
        _has_defaults(schema.get(m)) for m in below
    )


def _version_errors(
    version: Mapping[str, Any],
    field: str,
    schema_field: str,
    check_rules: CheckRules | None,
    *,
    has_status: bool,
) -> list[FieldError]:
    """Return the errors of settings of a version or, lifted, of spec."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    errors: list[FieldError] = []
    if schema is not None:
        errors += schema_errors(
            schema,
            field=f"{schema_field}.openAPIV3Schema",
            has_status=has_status,
            check_rules=check_rules,
        )
    subresources = version.get("subresources")
    errors += subresources_errors(subresources, field=f"{field}.subresources")
    columns = version.get("additionalPrinterColumns") or ()
    errors += columns_errors(columns, field=f"{field}.additionalPrinterColumns")
    selectable = version.get("selectableFields") or ()
    if selectable:
        at = f"{field}.selectableFields"
        if schema is not None:
            errors += selectable_fields_errors(selectable, schema, field=at)
        else:
            what = "validations.schema is included"
            if field != "spec":
                what = "`version.schema.openAPIV3Schema` is not included"
            errors.append(invalid(at, "", f"may only be set when {what}"))
    return errors


def _deprecation_errors(version: Mapping[str, Any], field: str) -> list[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    found: list[str] = []
    if not version.get("deprecated"):
        found.append("can only be set for deprecated versions")
    else:
        if len(text.encode()) > 256:
            found.append("must be <= 256 characters long")
        if not text:
            found.append("must not be an empty string")
        for position, char in enumerate(text):
            if not char.isprintable():
                at = len(text[:position].encode())
                words = "must only contain printable UTF-8 characters"
                found.append(f"{words}; non-printable character found at index {at}")
                break
    return [invalid(f"{field}.deprecationWarning", text, detail) for detail in found]


def _has_broken_bundle(spec: Mapping[str, Any]) -> bool:
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    bundle: str = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    return bool(bundle and ca_bundle_errors(bundle, field=""))


def _status_errors(crd: Mapping[str, Any]) -> list[FieldError]:
    status = crd.get("status") or {}
    errors = crd_status_update_errors(crd)
    return errors + stored_versions_errors(status.get("storedVersions"), _versions(crd))


def _preserve_errors(
    spec: Mapping[str, Any], old_spec: Mapping[str, Any] | None
) -> list[FieldError]:
    if not spec.get("preserveUnknownFields") or (old_spec or {}).get("preserveUnknownFields"):
        return []
    detail = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    return [invalid("spec.preserveUnknownFields", True, detail)]
