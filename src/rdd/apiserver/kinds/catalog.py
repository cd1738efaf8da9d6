# SPDX-License-Identifier: Apache-2.0
"""The catalog of built-in kinds.

`builtin_kinds` are stored; `review_kinds` are evaluated on creation and not stored. `decoder`
decodes their bodies; it is compiled with the first body of a kind.

A kind has its fields in `schema/builtin/` (`notation.FILES` lists the groups), its behaviour in a
module here, a line in this catalog, and its rules in `auth/bootstrap_policy.py`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.apiserver.kinds import (
    apiextensions,
    apiregistration,
    coordination,
    core,
    events,
    mutating_policies,
    policies,
    quota,
    rbac,
    webhooks,
)
from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy
from rdd.apiserver.kinds.expressions import CheckExpression, accept_any
from rdd.apiserver.kinds.reviews import ReviewStrategy
from rdd.apiserver.kinds.strategy import ResourceDefinition
from rdd.schema.builtin import nodes, typed

if TYPE_CHECKING:
    from rdd.schema.crd.schema import CheckRules

_CORE = "io.k8s.api.core.v1"
_PACKAGES = {
    "": _CORE,
    names.RBAC_GROUP: "io.k8s.api.rbac.v1",
    names.ADMISSION_GROUP: "io.k8s.api.admissionregistration.v1",
    names.COORDINATION_GROUP: "io.k8s.api.coordination.v1",
    names.EVENTS_GROUP: "io.k8s.api.events.v1",
    names.AUTHENTICATION_GROUP: "io.k8s.api.authentication.v1",
    names.AUTHORIZATION_GROUP: "io.k8s.api.authorization.v1",
    names.EXTENSIONS_GROUP: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    names.REGISTRATION_GROUP: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
_API_EXTENSIONS = ("api-extensions",)


def builtin_kinds(
    *, check_rules: "CheckRules | None" = None, check_expression: CheckExpression = accept_any
) -> list[ResourceDefinition]:
    """Return the stored built-in kinds.

    `check_rules` checks the CEL rules of CRD schemas, `check_expression` the CEL expressions of
    webhook configurations and policies.
    """
    validating = webhooks.ValidatingWebhookStrategy(check_expression)
    mutating = webhooks.MutatingWebhookStrategy(check_expression)
    definitions = apiextensions.CustomResourceDefinitionStrategy(check_rules)
    found = [
        _kind("", "Namespace", core.NamespaceStrategy(), short="ns", sub=("finalize", "status"),
              namespaced=False),
        _kind("", "ConfigMap", core.ConfigMapStrategy(), short="cm"),
        _kind("", "Secret", core.SecretStrategy()),
        _kind("", "ServiceAccount", core.ServiceAccountStrategy(), short="sa", sub=("token",)),
        _kind("", "Event", events.EventStrategy(), short="ev"),
        _kind("", "ResourceQuota", quota.ResourceQuotaStrategy(), short="quota", sub=("status",)),
        _kind(names.EVENTS_GROUP, "Event", events.EventsV1Strategy(), short="ev"),
        _kind(names.COORDINATION_GROUP, "Lease", coordination.LeaseStrategy()),
        _kind(names.RBAC_GROUP, "Role", rbac.RoleStrategy()),
        _kind(names.RBAC_GROUP, "RoleBinding", rbac.RoleBindingStrategy()),
        _kind(names.RBAC_GROUP, "ClusterRole", rbac.ClusterRoleStrategy(), namespaced=False),
        _kind(
            names.RBAC_GROUP, "ClusterRoleBinding", rbac.ClusterRoleBindingStrategy(),
            namespaced=False,
        ),
    ]  # fmt: skip
    extensions: list[tuple[str, str, BuiltinStrategy, tuple[str, ...]]] = [
        (names.ADMISSION_GROUP, "ValidatingWebhookConfiguration", validating, ()),
        (names.ADMISSION_GROUP, "MutatingWebhookConfiguration", mutating, ()),
        (
            *(names.ADMISSION_GROUP, "ValidatingAdmissionPolicy"),
            policies.PolicyStrategy(check_expression),
            ("status",),
        ),
        (
            names.ADMISSION_GROUP,
            "ValidatingAdmissionPolicyBinding",
            policies.PolicyBindingStrategy(),
            (),
        ),
        (
            *(names.ADMISSION_GROUP, "MutatingAdmissionPolicy"),
            mutating_policies.MutatingPolicyStrategy(check_expression),
            (),
        ),
        (
            *(names.ADMISSION_GROUP, "MutatingAdmissionPolicyBinding"),
            mutating_policies.MutatingPolicyBindingStrategy(),
            (),
        ),
        (names.EXTENSIONS_GROUP, "CustomResourceDefinition", definitions, ("status",)),
        (names.REGISTRATION_GROUP, "APIService", apiregistration.APIServiceStrategy(), ("status",)),
    ]
    for group, kind, strategy, subresources in extensions:
        made = _kind(group, kind, strategy, sub=subresources, namespaced=False)
        made.categories = _API_EXTENSIONS
        if kind == "CustomResourceDefinition":
            made.short_names = ("crd", "crds")
        found.append(made)
    return found


def review_kinds() -> list[ResourceDefinition]:
    """Return the kinds that are evaluated on creation and not stored."""
    authorization, authentication = names.AUTHORIZATION_GROUP, names.AUTHENTICATION_GROUP
    return [
        _kind(authorization, "SubjectAccessReview", ReviewStrategy(), namespaced=False),
        _kind(authorization, "SelfSubjectAccessReview", ReviewStrategy(), namespaced=False),
        _kind(authorization, "SelfSubjectRulesReview", ReviewStrategy(), namespaced=False),
        _kind(authorization, "LocalSubjectAccessReview", ReviewStrategy()),
        _kind(authentication, "TokenReview", ReviewStrategy(), namespaced=False),
        _kind(authentication, "SelfSubjectReview", ReviewStrategy(), namespaced=False),
    ]


def decoder(definition: str) -> Callable[[Object, list[str]], Object]:
    """Return the function that decodes objects of a definition."""
    shape = typed.shape(definition)
    decode_typed = typed.decode_typed
    return lambda obj, unknown: decode_typed(shape, obj, unknown=unknown)


def _kind(
    group: str,
    kind: str,
    strategy: BuiltinStrategy,
    *,
    short: str = "",
    sub: tuple[str, ...] = (),
    namespaced: bool = True,
) -> ResourceDefinition:
    singular = kind.lower()
    definition = f"{_PACKAGES[group]}.{kind}"
    return ResourceDefinition(
        group=group,
        version="v1",
        kind=kind,
        plural=_plural(singular),
        singular=singular,
        namespaced=namespaced,
        node=nodes.node(definition),
        strategy=strategy,
        short_names=(short,) if short else (),
        subresources=sub,
        definition=definition,
    )


def _plural(singular: str) -> str:
    return singular[:-1] + "ies" if singular.endswith("y") else singular + "s"
