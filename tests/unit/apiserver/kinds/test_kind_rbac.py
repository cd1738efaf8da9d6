# SPDX-License-Identifier: Apache-2.0
"""Rules of RBAC kinds and of Lease."""

import pytest

from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import coordination, rbac

GROUP = "rbac.authorization.k8s.io"
REF: Object = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"}


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def obj(**members: object) -> Object:
    return {"metadata": {"name": "a"}, **members}


roles, cluster_roles = rbac.RoleStrategy(), rbac.ClusterRoleStrategy()
bindings, cluster_bindings = rbac.RoleBindingStrategy(), rbac.ClusterRoleBindingStrategy()


@pytest.mark.parametrize("name", ["system:admin", "Upper", "a b", "-"])
def test_every_path_segment_is_a_valid_name(name: str) -> None:
    assert roles.name_errors(name, is_prefix=False) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("..", "may not be '..'", id="dots"),
        pytest.param("a/b", "may not contain '/'", id="slash"),
        pytest.param("a%b", "may not contain '%'", id="percent"),
    ],
)
def test_rejects_names_that_are_no_path_segment(name: str, why: str) -> None:
    assert bindings.name_errors(name, is_prefix=False) == [why]


RESOURCE_RULE: Object = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}


@pytest.mark.parametrize(
    ("strategy", "rule", "expected"),
    [
        pytest.param(roles, RESOURCE_RULE, [], id="resources"),
        pytest.param(
            roles,
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api "
                "group",
                "rules[0].resources: Required value: resource rules must supply at least one "
                "resource",
            ],
            id="empty",
        ),
        pytest.param(
            roles,
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply '
                "to non-resource URLs"
            ],
            id="urls-in-a-namespace",
        ),
        pytest.param(cluster_roles, {"verbs": ["get"], "nonResourceURLs": ["/x"]}, [], id="urls"),
        pytest.param(
            cluster_roles,
            {**RESOURCE_RULE, "nonResourceURLs": ["/x"]},
            [
                'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both '
                "regular resources and non-resource URLs"
            ],
            id="both",
        ),
    ],
)
def test_rules_are_complete(strategy: rbac.RoleStrategy, rule: Object, expected: list[str]) -> None:
    assert texts(strategy.validate(obj(rules=[rule])).errors) == expected


def test_aggregation_selects_something() -> None:
    assert texts(cluster_roles.validate(obj(aggregationRule={})).errors) == [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector "
        "required if aggregationRule is non-nil"
    ]


def test_aggregation_selectors_are_legal() -> None:
    selector = {"matchExpressions": [{"key": "x", "operator": "Nope"}]}
    role = obj(aggregationRule={"clusterRoleSelectors": [selector]})
    assert texts(cluster_roles.validate(role).errors) == [
        "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "
        '"Nope": not a valid selector operator',
        "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
    ]


def test_groups_of_roles_and_subjects_are_defaulted() -> None:
    binding = obj(
        subjects=[
            {"kind": "User", "name": "u"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ],
        roleRef={"apiGroup": "", "kind": "Role", "name": "r"},
    )
    bindings.normalise(binding)
    assert binding["roleRef"]["apiGroup"] == GROUP
    assert binding["subjects"] == [
        {"kind": "User", "apiGroup": GROUP, "name": "u"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    assert bindings.validate(binding).errors == []


@pytest.mark.parametrize(
    ("strategy", "members", "expected"),
    [
        pytest.param(
            bindings,
            {"roleRef": {"apiGroup": "x", "kind": "Thing", "name": ""}},
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
                'roleRef.kind: Unsupported value: "Thing": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
            ],
            id="role",
        ),
        pytest.param(
            cluster_bindings,
            {"roleRef": {**REF, "kind": "Role"}},
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
            id="role-in-the-cluster",
        ),
        pytest.param(
            bindings,
            {"roleRef": REF, "subjects": [{"kind": "Robot", "name": "x"}]},
            [
                'subjects[0].kind: Unsupported value: "Robot": supported values: '
                '"ServiceAccount", "User", "Group"'
            ],
            id="kind",
        ),
        pytest.param(
            bindings,
            {"roleRef": REF, "subjects": [{"kind": "User", "apiGroup": GROUP, "name": ""}]},
            [
                "subjects[0].name: Required value",
            ],
            id="nameless-user",
        ),
        pytest.param(
            cluster_bindings,
            {"roleRef": REF, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            ["subjects[0].namespace: Required value"],
            id="account-without-namespace",
        ),
        pytest.param(
            bindings,
            {
                "roleRef": REF,
                "subjects": [{"kind": "ServiceAccount", "apiGroup": "x", "name": "s"}],
            },
            ['subjects[0].apiGroup: Unsupported value: "x": supported values: ""'],
            id="account-with-group",
        ),
    ],
)
def test_bindings_name_role_and_subjects(
    strategy: rbac.RoleBindingStrategy, members: Object, expected: list[str]
) -> None:
    assert texts(strategy.validate(obj(**members)).errors) == expected


def test_role_of_a_binding_cannot_change() -> None:
    old, new = obj(roleRef=REF), obj(roleRef={**REF, "name": "s"})
    assert bindings.validate_update(old, old).errors == []
    assert texts(bindings.validate_update(new, old).errors) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"s"}}: '
        "cannot change roleRef"
    ]


leases = coordination.LeaseStrategy()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"leaseDurationSeconds": 1, "leaseTransitions": 0}, [], id="legal"),
        pytest.param(
            {"leaseDurationSeconds": 0},
            ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
            id="no-duration",
        ),
        pytest.param(
            {"leaseTransitions": -1},
            ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
            id="negative-transitions",
        ),
    ],
)
def test_lease_numbers_are_validated(spec: Object, expected: list[str]) -> None:
    assert texts(leases.validate(obj(spec=spec)).errors) == expected


def test_lease_has_no_election_fields() -> None:
    lease = obj(spec={"holderIdentity": "a", "strategy": "x", "preferredHolder": "b"})
    leases.prepare_for_create(lease)
    assert lease["spec"] == {"holderIdentity": "a"}


def test_leases_and_rbac_objects_can_be_created_by_put() -> None:
    assert leases.allow_create_on_update
    assert roles.allow_create_on_update
    assert bindings.allow_create_on_update
    assert not leases.allow_unconditional_update
