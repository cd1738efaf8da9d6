# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.apiserver.auth.identity_world import World, group, rule, user

from rdd.api.errors import BadRequest, Invalid
from rdd.api.types import Object
from rdd.apiserver.auth.authentication import Authenticator
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.auth.reviews import REVIEWS, Reviewer
from rdd.apiserver.auth.tokens import ISSUER
from rdd.apiserver.http.request import User

ANN = User("ann", ("system:authenticated",), uid="u", extra={"k": ("v",)})
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "ns"}
KINDS = {
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "tokenreviews": "TokenReview",
    "selfsubjectreviews": "SelfSubjectReview",
}


def world() -> World:
    made = World()
    made.grant("r", user("ann"), rule("get", "pods"), namespace="ns")
    made.grant("c", group("ops"), rule("get", nonResourceURLs=["/metrics"]))
    return made


def post(
    resource: str,
    spec: Object | None = None,
    *,
    metadata: Object | None = None,
    who: User = ANN,
    lister: World | None = None,
) -> Object:
    """Post a review and return the response."""
    rbac = RbacAuthorizer(lister or world())
    authenticator = Authenticator({"token": User("eve", uid="e")})
    reviewer = Reviewer(authenticator, rbac, rbac, now=lambda: 1_800_000_000)
    is_authentication = resource in ("tokenreviews", "selfsubjectreviews")
    api_group = "authentication.k8s.io" if is_authentication else "authorization.k8s.io"
    obj: Object = {
        "apiVersion": f"{api_group}/v1",
        "kind": KINDS[resource],
        "metadata": metadata or {},
    }
    if spec is not None:
        obj["spec"] = spec
    before = repr(obj)
    reviewed = REVIEWS[api_group, resource](obj, who, "ns", reviewer)
    assert repr(obj) == before
    assert (reviewed["apiVersion"], reviewed["kind"]) == (obj["apiVersion"], obj["kind"])
    return reviewed


def problems(resource: str, spec: Object, **options: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        post(resource, spec, **options)
    error = caught.value
    assert error.message.startswith('.authorization.k8s.io "" is invalid: ')
    assert error.details is not None
    assert set(error.details) == {"group", "causes"}
    return [str(e) for e in error.errors]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param(
            {"user": "ann", "resourceAttributes": GET_PODS},
            {
                "allowed": True,
                "reason": 'RBAC: allowed by RoleBinding "r/ns" of Role "r" to User "ann"',
            },
            id="allowed",
        ),
        pytest.param(
            {"user": "bob", "resourceAttributes": GET_PODS}, {"allowed": False}, id="not-allowed"
        ),
        pytest.param(
            {"user": "bob", "groups": ["system:masters"], "resourceAttributes": GET_PODS},
            {"allowed": True},
            id="masters",
        ),
        pytest.param(
            {"groups": ["ops"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
            {
                "allowed": True,
                "reason": 'RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "c" '
                'to Group "ops"',
            },
            id="path",
        ),
        pytest.param(
            {"user": "ann", "resourceAttributes": {"verb": "*", "resource": "*"}},
            {"allowed": False},
            id="everything",
        ),
        pytest.param(
            {"user": "ann", "resourceAttributes": {**GET_PODS, "subresource": "status"}},
            {"allowed": False},
            id="subresource",
        ),
    ],
)
def test_access_review_returns_decision_and_reason(spec: Object, status: Object) -> None:
    reviewed = post("subjectaccessreviews", spec)
    assert (reviewed["spec"], reviewed["status"], reviewed["metadata"]) == (spec, status, {})


def test_self_review_evaluates_the_requesting_user() -> None:
    spec = {"resourceAttributes": GET_PODS}
    assert post("selfsubjectaccessreviews", spec)["status"]["allowed"]
    assert not post("selfsubjectaccessreviews", spec, who=User("bob"))["status"]["allowed"]


def test_missing_role_is_the_reason() -> None:
    lister = World()
    lister.bind("b", "none", user("ann"), namespace="ns")
    reviewed = post("selfsubjectaccessreviews", {"resourceAttributes": GET_PODS}, lister=lister)
    assert reviewed["status"] == {
        "allowed": False,
        "reason": 'RBAC: role.rbac.authorization.k8s.io "none" not found',
    }


def test_local_review_is_about_its_namespace() -> None:
    reviewed = post("localsubjectaccessreviews", {"user": "ann", "resourceAttributes": GET_PODS})
    assert reviewed["metadata"] == {"namespace": "ns"}
    assert reviewed["status"]["allowed"]


@pytest.mark.parametrize(
    ("resource", "spec", "expected"),
    [
        pytest.param(
            "subjectaccessreviews",
            {"resourceAttributes": GET_PODS},
            ['spec.user: Invalid value: "": at least one of user or group must be specified'],
            id="no-user",
        ),
        pytest.param(
            "subjectaccessreviews",
            {"user": "x"},
            [
                "spec.resourceAttributes: Invalid value: null: exactly one of "
                "nonResourceAttributes or resourceAttributes must be specified"
            ],
            id="nothing",
        ),
        pytest.param(
            "selfsubjectaccessreviews",
            {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            [
                'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: cannot be '
                "specified in combination with resourceAttributes"
            ],
            id="both",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {**GET_PODS, "namespace": "other"}},
            [
                'spec.resourceAttributes.namespace: Invalid value: "other": must match '
                "metadata.namespace"
            ],
            id="other-namespace",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"user": "x", "nonResourceAttributes": {"path": "/", "verb": "get"}},
            [
                'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed '
                "on this kind of request"
            ],
            id="local-path",
        ),
    ],
)
def test_ambiguous_reviews_are_invalid(resource: str, spec: Object, expected: list[str]) -> None:
    assert problems(resource, spec) == expected


@pytest.mark.parametrize(
    ("resource", "metadata", "expected"),
    [
        pytest.param(
            "subjectaccessreviews",
            {"name": "a"},
            'metadata: Invalid value: {"name":"a"}: must be empty',
            id="cluster",
        ),
        pytest.param(
            "localsubjectaccessreviews",
            {"name": "a", "namespace": "ns"},
            'metadata: Invalid value: {"name":"a","namespace":"ns"}: must be empty except for '
            "namespace",
            id="local",
        ),
    ],
)
def test_reviews_have_no_name(resource: str, metadata: Object, expected: str) -> None:
    spec = {"user": "x", "resourceAttributes": GET_PODS}
    assert problems(resource, spec, metadata=metadata) == [expected]


def test_managed_fields_are_accepted_in_metadata() -> None:
    fields = {"managedFields": [{"manager": "kubectl"}]}
    spec = {"resourceAttributes": GET_PODS}
    assert post("selfsubjectaccessreviews", spec, metadata=fields)["status"]["allowed"]


def test_empty_metadata_members_are_not_repeated() -> None:
    spec = {"resourceAttributes": GET_PODS}
    reviewed = post("selfsubjectaccessreviews", spec, metadata={"creationTimestamp": None})
    assert reviewed["metadata"] == {}


def with_selector(name: str, selector: Object) -> Object:
    return {"resourceAttributes": {**GET_PODS, name: selector}}


def requirement(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize("name", ["fieldSelector", "labelSelector"])
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(
            {"rawSelector": "a=b", "requirements": [requirement("a", "In", "b")]},
            '.rawSelector: Invalid value: "a=b": may not specified at the same time as '
            "requirements",
            id="both",
        ),
        pytest.param(
            {},
            ".requirements: Required value: when PATH is specified, requirements or rawSelector "
            "is required",
            id="neither",
        ),
        pytest.param(
            {"requirements": [requirement("a", "In")]},
            ".requirements[0].values: Required value: must be specified when `operator` is 'In' "
            "or 'NotIn'",
            id="in-nothing",
        ),
        pytest.param(
            {"requirements": [requirement("a", "Exists", "b")]},
            ".requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' "
            "or 'DoesNotExist'",
            id="exists-with-value",
        ),
    ],
)
def test_selectors_are_validated(name: str, selector: Object, expected: str) -> None:
    path = f"spec.resourceAttributes.{name}"
    found = problems("selfsubjectaccessreviews", with_selector(name, selector))
    assert found == [path + expected.replace("PATH", path)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fieldSelector", "Required value: must be specified"),
        ("labelSelector", 'Invalid value: "": name part must be non-empty'),
    ],
)
def test_selector_requirements_need_a_key(name: str, expected: str) -> None:
    selector = {"requirements": [requirement("", "In", "b")]}
    first = problems("selfsubjectaccessreviews", with_selector(name, selector))[0]
    assert first == f"spec.resourceAttributes.{name}.requirements[0].key: {expected}"


def test_label_values_in_selectors_are_validated() -> None:
    selector = {"requirements": [requirement("a", "In", "ok", "-")]}
    (found,) = problems("selfsubjectaccessreviews", with_selector("labelSelector", selector))
    path = "spec.resourceAttributes.labelSelector.requirements[0].values[1]"
    assert found.startswith(f'{path}: Invalid value: "-": a valid label must be')


@pytest.mark.parametrize(
    ("name", "selector", "problem"),
    [
        pytest.param("fieldSelector", {"rawSelector": "metadata.name=a"}, "", id="field"),
        pytest.param("labelSelector", {"rawSelector": "a in (b)"}, "", id="label"),
        pytest.param("fieldSelector", {"rawSelector": "***foo"}, "ignored", id="bad-field"),
        pytest.param("labelSelector", {"rawSelector": "***foo"}, "ignored", id="bad-label"),
        pytest.param(
            "labelSelector",
            {"requirements": [requirement("a", "New", "b")]},
            "ignored",
            id="unknown-operator",
        ),
        pytest.param(
            "labelSelector",
            {"requirements": [requirement("a", "New", "b"), requirement("a", "Exists")]},
            "partially ignored",
            id="one-unknown-operator",
        ),
        pytest.param(
            "fieldSelector",
            {"requirements": [requirement("a", "Exists"), requirement("a", "In", "b")]},
            "partially ignored",
            id="field-exists",
        ),
        pytest.param(
            "fieldSelector",
            {"requirements": [requirement("a", "NotIn", "b", "c")]},
            "ignored",
            id="field-not-in-many",
        ),
    ],
)
def test_unparsable_selectors_are_reported(name: str, selector: Object, problem: str) -> None:
    status = post("selfsubjectaccessreviews", with_selector(name, selector))["status"]
    expected = f"spec.resourceAttributes.{name} {problem} due to parse error" if problem else None
    assert status.get("evaluationError") == expected
    assert status["allowed"]


def test_rules_review_lists_all_rules_of_the_requesting_user() -> None:
    lister = world()
    lister.bind("n", "none", user("ann"))
    named = rule("get", "secrets", resourceNames=["a"])
    lister.grant("s", user("ann"), named, rule("get", nonResourceURLs=["/x"]))
    reviewed = post("selfsubjectrulesreviews", {"namespace": "ns"}, lister=lister)
    assert reviewed["spec"] == {}
    assert reviewed["status"] == {
        "resourceRules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
        "incomplete": False,
        "evaluationError": 'clusterrole.rbac.authorization.k8s.io "none" not found',
    }


def test_rules_review_needs_a_namespace() -> None:
    with pytest.raises(BadRequest, match=r"^no namespace on request$"):
        post("selfsubjectrulesreviews", {})


def test_token_review_returns_the_user_of_the_token() -> None:
    reviewed = post("tokenreviews", {"token": "token"})
    assert reviewed["spec"] == {"token": "token"}
    assert reviewed["status"] == {
        "authenticated": True,
        "user": {"username": "eve", "uid": "e", "groups": ["system:authenticated"]},
        "audiences": [ISSUER],
    }


@pytest.mark.parametrize(
    "spec", [{"token": "wrong"}, {"token": "token", "audiences": ["other"]}], ids=str
)
def test_token_review_of_an_unknown_token_is_not_authenticated(spec: Object) -> None:
    status = post("tokenreviews", spec)["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize("spec", [{}, {"token": ""}], ids=str)
def test_token_review_needs_a_token(spec: Object) -> None:
    with pytest.raises(BadRequest, match=r"^token is required for TokenReview in authentication$"):
        post("tokenreviews", spec)


def test_self_subject_review_returns_the_requesting_user() -> None:
    reviewed = post("selfsubjectreviews", metadata={"name": "ignored"})
    assert reviewed["metadata"] == {"creationTimestamp": "2027-01-15T08:00:00Z"}
    assert reviewed["status"] == {
        "userInfo": {
            "username": "ann",
            "uid": "u",
            "groups": ["system:authenticated"],
            "extra": {"k": ["v"]},
        }
    }
