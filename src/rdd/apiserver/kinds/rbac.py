# SPDX-License-Identifier: Apache-2.0
"""Strategies of rbac.authorization.k8s.io.

rdd.apiserver.auth.escalation checks that users grant no permissions they do not have.
"""

from typing import Any

from rdd.api import fielderrors, name_validation, names, selectors
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds.builtin_strategy import AGE, NAME, BuiltinStrategy, CreatedAtStrategy
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.builtin import texts


class RoleStrategy(CreatedAtStrategy):
    """Roles; every path segment is a valid name."""

    repeated_metadata_checks = ("whole", "changed")
    allow_create_on_update = True
    qualified_finalizers = True
    is_namespaced = True

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Accept names such as `system:admin`."""
        return name_validation.path_segment_name_errors(name, is_prefix=False)

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.finalizer_errors(obj)
        for i, rule in enumerate(obj.get("rules") or ()):
            errors += self._rule_errors(rule, f"rules[{i}]")
        return errors

    def _rule_errors(self, rule: Object, path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        required = fielderrors.required
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        groups, resources = rule.get("apiGroups"), rule.get("resources")
        urls = rule.get("nonResourceURLs")
        if urls:
            at = f"{path}.nonResourceURLs"
            if self.is_namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(fielderrors.invalid(at, urls, detail))
            if groups or resources or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(fielderrors.invalid(at, urls, detail))
            return errors
        if not groups:
            detail = "resource rules must supply at least one api group"
            errors.append(required(f"{path}.apiGroups", detail))
        if not resources:
            detail = "resource rules must supply at least one resource"
            errors.append(required(f"{path}.resources", detail))
        return errors


class ClusterRoleStrategy(RoleStrategy):
    """Cluster roles, which can aggregate other cluster roles."""

    is_namespaced = False

    def errors(self, obj: Object) -> list[FieldError]:
        errors = super().errors(obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return errors
        path = "aggregationRule.clusterRoleSelectors"
        chosen = aggregation.get("clusterRoleSelectors") or ()
        if not chosen:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(fielderrors.required(path, detail))
        for i, selector in enumerate(chosen):
            found = selectors.validate_label_selector(selector, f"{path}[{i}]")
            if found:
                found.append(fielderrors.invalid(f"{path}[{i}]", None, "invalid label selector."))
            errors += found
        return errors


class RoleBindingStrategy(BuiltinStrategy):
    """Bindings of roles to subjects; the role reference is immutable."""

    repeated_metadata_checks = ("whole", "changed")
    allow_create_on_update = True
    qualified_finalizers = True
    is_namespaced = True
    role_kinds: tuple[str, ...] = ("Role", "ClusterRole")
    columns: tuple[TableColumn, ...] = (
        NAME,
        TableColumn("Role", description=texts.ROLE_REF),
        AGE,
        TableColumn("Users", description="Users in the roleBinding", priority=1),
        TableColumn("Groups", description="Groups in the roleBinding", priority=1),
        TableColumn(
            "ServiceAccounts", description="ServiceAccounts in the roleBinding", priority=1
        ),
    )

    def name_errors(self, name: str, *, is_prefix: bool) -> list[str]:
        """Accept names such as `system:admin`."""
        return name_validation.path_segment_name_errors(name, is_prefix=False)

    def normalise(self, obj: Object) -> None:
        """Default the API groups of the role and of users and groups."""
        role = obj.get("roleRef")
        if role is not None and not role.get("apiGroup"):
            obj["roleRef"] = {**role, "apiGroup": names.RBAC_GROUP}
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                name, namespace = subject.pop("name", ""), subject.pop("namespace", None)
                subject["apiGroup"], subject["name"] = names.RBAC_GROUP, name
                if namespace:
                    subject["namespace"] = namespace

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.finalizer_errors(obj)
        role = obj.get("roleRef") or {}
        group, kind, name = role.get("apiGroup", ""), role.get("kind", ""), role.get("name", "")
        if group != names.RBAC_GROUP:
            errors.append(fielderrors.not_supported("roleRef.apiGroup", group, [names.RBAC_GROUP]))
        if kind not in self.role_kinds:
            errors.append(fielderrors.not_supported("roleRef.kind", kind, self.role_kinds))
        if not name:
            errors.append(fielderrors.required("roleRef.name"))
        for why in name_validation.path_segment_name_errors(name):
            errors.append(fielderrors.invalid("roleRef.name", name, why))
        for i, subject in enumerate(obj.get("subjects") or ()):
            errors += self._subject_errors(subject, f"subjects[{i}]")
        return errors

    def _subject_errors(self, subject: Object, path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        kind, name = subject.get("kind", ""), subject.get("name", "")
        group = subject.get("apiGroup", "")
        if not name:
            errors.append(fielderrors.required(f"{path}.name"))
        if kind == "ServiceAccount":
            if name:
                for why in name_validation.dns1123_subdomain_errors(name):
                    errors.append(fielderrors.invalid(f"{path}.name", name, why))
            if group:
                errors.append(fielderrors.not_supported(f"{path}.apiGroup", group, [""]))
            if not self.is_namespaced and not subject.get("namespace"):
                errors.append(fielderrors.required(f"{path}.namespace"))
        elif kind in ("User", "Group"):
            if group != names.RBAC_GROUP:
                errors.append(
                    fielderrors.not_supported(f"{path}.apiGroup", group, [names.RBAC_GROUP])
                )
        else:
            supported = ("ServiceAccount", "User", "Group")
            errors.append(fielderrors.not_supported(f"{path}.kind", kind, supported))
        return errors

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        errors = self.errors(obj)
        new, stored = obj.get("roleRef") or {}, old.get("roleRef") or {}
        if new != stored:
            shown = {
                "APIGroup": new.get("apiGroup", ""),
                "Kind": new.get("kind", ""),
                "Name": new.get("name", ""),
            }
            errors.append(fielderrors.invalid("roleRef", shown, "cannot change roleRef"))
        return errors

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        """Return the role and the subjects by kind."""
        role = obj.get("roleRef") or {}
        name, age = super().cells(obj, now=now)
        by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
        for subject in obj.get("subjects") or ():
            shown = subject.get("name", "")
            if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
                shown = f"{subject['namespace']}/{shown}"
            by_kind.setdefault(subject.get("kind", ""), []).append(shown)
        return [
            name,
            f"{role.get('kind', '')}/{role.get('name', '')}",
            age,
            *(", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")),
        ]


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """Bindings of cluster roles in all namespaces."""

    is_namespaced = False
    role_kinds = ("ClusterRole",)
    columns = (
        NAME,
        TableColumn("Role", description=texts.CLUSTER_ROLE_REF),
        AGE,
        TableColumn("Users", description="Users in the clusterRoleBinding", priority=1),
        TableColumn("Groups", description="Groups in the clusterRoleBinding", priority=1),
        TableColumn(
            "ServiceAccounts", description="ServiceAccounts in the clusterRoleBinding", priority=1
        ),
    )
