# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.apiserver.auth.identity_world import World, account, group, rule, user

from rdd.apiserver.auth.authorizer import AuthorizationAttributes, Decision
from rdd.apiserver.auth.policy_rules import PolicyRule, RbacRule, compact, describe, uncovered
from rdd.apiserver.auth.rbac import RbacAuthorizer, forbidden_error
from rdd.apiserver.http.request import ANONYMOUS, User

ANN = User("ann", ("devs", "system:authenticated"))
BOB = User("system:serviceaccount:ns:bob", ("system:serviceaccounts", "system:serviceaccounts:ns"))


def attributes_of(
    who: User,
    verb: str,
    resource: str,
    *,
    namespace: str = "",
    name: str = "",
    api_group: str = "",
) -> AuthorizationAttributes:
    resource, _, subresource = resource.partition("/")
    return AuthorizationAttributes(
        who,
        verb,
        group=api_group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


@pytest.mark.parametrize(
    ("policy", "verb", "resource", "name", "api_group", "is_allowed"),
    [
        pytest.param(rule("get", "pods"), "get", "pods", "", "", True, id="exact"),
        pytest.param(rule("get", "pods"), "list", "pods", "", "", False, id="other-verb"),
        pytest.param(rule("*", "pods"), "list", "pods", "", "", True, id="all-verbs"),
        pytest.param(rule("get", "pods"), "get", "pods", "", "apps", False, id="other-group"),
        pytest.param(rule("get", "pods", "*"), "get", "pods", "", "apps", True, id="all-groups"),
        pytest.param(rule("get", "*"), "get", "pods", "", "", True, id="all-resources"),
        pytest.param(rule("get", "*"), "get", "pods/log", "", "", True, id="all-subresources"),
        pytest.param(rule("get", "pods"), "get", "pods/log", "", "", False, id="subresource"),
        pytest.param(rule("get", "pods/log"), "get", "pods/log", "", "", True, id="its-name"),
        pytest.param(rule("get", "pods/log"), "get", "pods", "", "", False, id="not-the-parent"),
        pytest.param(rule("get", "*/scale"), "get", "pods/scale", "", "", True, id="any-scale"),
        pytest.param(rule("get", "*/scale"), "get", "pods/log", "", "", False, id="only-scale"),
        pytest.param(rule("get", "*/scale"), "get", "scale", "", "", False, id="not-resource"),
        pytest.param(rule("get", "pods/*"), "get", "pods/log", "", "", False, id="no-such-star"),
        pytest.param(
            rule("get", "pods", resourceNames=["a", "b"]), "get", "pods", "b", "", True, id="named"
        ),
        pytest.param(
            rule("get", "pods", resourceNames=["a"]), "get", "pods", "c", "", False, id="unnamed"
        ),
        pytest.param(
            rule("list", "pods", resourceNames=["a"]), "list", "pods", "", "", False, id="list"
        ),
        pytest.param(
            rule("get", nonResourceURLs=["*"]), "get", "pods", "", "", False, id="url-rule"
        ),
    ],
)
def test_rule_decides_about_resources(
    policy: PolicyRule, verb: str, resource: str, name: str, api_group: str, is_allowed: bool
) -> None:
    world = World()
    world.grant("r", user("ann"), policy)
    attributes = attributes_of(ANN, verb, resource, name=name, api_group=api_group)
    assert RbacAuthorizer(world).authorize(attributes).allowed is is_allowed


@pytest.mark.parametrize(
    ("urls", "path", "is_allowed"),
    [
        pytest.param(["/metrics"], "/metrics", True, id="exact"),
        pytest.param(["/metrics"], "/metrics/slis", False, id="longer"),
        pytest.param(["/healthz/*"], "/healthz/ping", True, id="prefix"),
        pytest.param(["/healthz/*"], "/healthz", False, id="prefix-needs-its-slash"),
        pytest.param(["/api*"], "/apis/x", True, id="prefix-in-a-segment"),
        pytest.param(["*"], "/anything", True, id="all"),
        pytest.param(["/a*b"], "/axb", False, id="star-only-at-the-end"),
    ],
)
def test_rule_decides_about_paths(urls: list[str], path: str, is_allowed: bool) -> None:
    world = World()
    world.grant("r", user("ann"), rule("get", nonResourceURLs=urls))
    attributes = AuthorizationAttributes(ANN, "get", is_resource=False, path=path)
    authorizer = RbacAuthorizer(world)
    assert authorizer.authorize(attributes).allowed is is_allowed
    post = AuthorizationAttributes(ANN, "post", is_resource=False, path=path)
    assert not authorizer.authorize(post).allowed


def test_role_binding_allows_only_in_its_namespace() -> None:
    world = World()
    world.grant("r", user("ann"), rule("list", "configmaps"), namespace="ns")
    authorizer = RbacAuthorizer(world)
    assert authorizer.authorize(attributes_of(ANN, "list", "configmaps", namespace="ns")).allowed
    assert not authorizer.authorize(
        attributes_of(ANN, "list", "configmaps", namespace="other")
    ).allowed
    assert not authorizer.authorize(attributes_of(ANN, "list", "configmaps")).allowed


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        pytest.param(ANN, 'RoleBinding "b/ns" of Role "r" to Group "devs"', id="group"),
        pytest.param(User("eve"), 'RoleBinding "b/ns" of Role "r" to User "eve"', id="user"),
        pytest.param(
            BOB, 'RoleBinding "b/ns" of Role "r" to ServiceAccount "bob/ns"', id="own-account"
        ),
        pytest.param(
            User("system:serviceaccount:far:tom"),
            'RoleBinding "b/ns" of Role "r" to ServiceAccount "tom/far"',
            id="far-account",
        ),
    ],
)
def test_reason_names_binding_role_and_first_subject_that_fits(who: User, reason: str) -> None:
    world = World()
    world.role("r", rule("get", "pods"), namespace="ns")
    subjects = [group("devs"), user("ann"), user("eve"), account("bob"), account("tom", "far")]
    world.bind("b", "r", *subjects, namespace="ns")
    decision = RbacAuthorizer(world).authorize(attributes_of(who, "get", "pods", namespace="ns"))
    assert decision == Decision(True, f"RBAC: allowed by {reason}")


def test_cluster_role_binding_applies_in_every_namespace() -> None:
    world = World()
    world.grant("r", group("devs"), rule("get", "pods"))
    decision = RbacAuthorizer(world).authorize(attributes_of(ANN, "get", "pods", namespace="any"))
    source = 'ClusterRoleBinding "r" of ClusterRole "r" to Group "devs"'
    assert decision == Decision(True, f"RBAC: allowed by {source}")


def test_account_without_namespace_in_a_cluster_binding_matches_no_user() -> None:
    world = World()
    world.grant("r", account("bob"), rule("get", "pods"))
    assert not RbacAuthorizer(world).authorize(attributes_of(BOB, "get", "pods")).allowed


def test_missing_roles_are_named_in_the_reason_of_a_denial() -> None:
    world = World()
    world.bind("a", "gone", user("ann"))
    world.bind("b", "none", user("ann"), namespace="ns")
    world.bind("c", "gone", user("ann"), namespace="ns", kind="ClusterRole")
    authorizer = RbacAuthorizer(world)
    attributes = attributes_of(ANN, "get", "pods", namespace="ns")
    missing_cluster = 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    missing = 'role.rbac.authorization.k8s.io "none" not found'
    decision = authorizer.authorize(attributes)
    assert decision == Decision(False, f"RBAC: [{missing_cluster}, {missing}]")
    world.bind("d", "ok", user("ann"), namespace="ns")
    world.role("ok", rule("get", "pods"), namespace="ns")
    assert authorizer.authorize(attributes).allowed


def test_masters_may_do_everything_without_a_reason() -> None:
    admin = User("admin", ("system:masters",))
    assert RbacAuthorizer(World()).authorize(attributes_of(admin, "get", "pods")) == Decision(True)


@pytest.mark.parametrize("change", ["role", "binding", "delete"])
def test_decisions_follow_changes_of_the_objects(change: str) -> None:
    world = World()
    world.grant("r", user("ann"), rule("get", "pods"), namespace="ns")
    authorizer = RbacAuthorizer(world)
    attributes = attributes_of(ANN, "get", "pods", namespace="ns")
    assert authorizer.authorize(attributes).allowed
    if change == "role":
        world.role("r", rule("list", "pods"), namespace="ns")
    elif change == "binding":
        world.bind("r", "r", user("eve"), namespace="ns")
    else:
        world.delete("rolebindings", "ns", "r")
    assert not authorizer.authorize(attributes).allowed


def test_repeated_decisions_read_no_objects() -> None:
    world = World().bootstrap()
    authorizer = RbacAuthorizer(world)
    for name in ("a", "b", "c"):
        authorizer.authorize(attributes_of(ANN, "get", "pods", namespace="ns", name=name))
    lists = world.lists
    for name in ("a", "b", "c"):
        authorizer.authorize(attributes_of(ANN, "get", "pods", namespace="ns", name=name))
    assert world.lists == lists


@pytest.mark.parametrize(
    ("attributes", "decision", "message", "details"),
    [
        pytest.param(
            attributes_of(ANN, "list", "configmaps", namespace="ns"),
            Decision(False),
            'configmaps is forbidden: User "ann" cannot list resource "configmaps" '
            'in API group "" in the namespace "ns"',
            {"kind": "configmaps"},
            id="namespaced",
        ),
        pytest.param(
            attributes_of(ANN, "patch", "widgets/status", name="a", api_group="example.com"),
            Decision(False, "RBAC: why"),
            'widgets.example.com "a" is forbidden: User "ann" cannot patch resource '
            '"widgets/status" in API group "example.com" at the cluster scope: RBAC: why',
            {"name": "a", "group": "example.com", "kind": "widgets"},
            id="subresource-with-reason",
        ),
        pytest.param(
            AuthorizationAttributes(ANONYMOUS, "get", is_resource=False, path="/nonsense"),
            Decision(False),
            'forbidden: User "system:anonymous" cannot get path "/nonsense"',
            {},
            id="path",
        ),
        pytest.param(
            AuthorizationAttributes(User("<b>&"), "get", is_resource=False, path="/"),
            Decision(False),
            'forbidden: User "&lt;b&gt;&amp;" cannot get path "/"',
            {},
            id="markup-is-escaped",
        ),
    ],
)
def test_denial_is_worded_as_kubernetes_does(
    attributes: AuthorizationAttributes, decision: Decision, message: str, details: dict[str, str]
) -> None:
    error = forbidden_error(attributes, decision)
    assert (error.code, error.message, error.details) == (403, message, details)


# --- uncovered() against a model: rules over a tiny universe as the set of allowed requests


VERBS = ("get", "list", "watch")
GROUPS = ("", "apps", "x")
RESOURCES = ("pods", "sets", "pods/scale", "sets/scale", "pods/log", "jobs/scale")
NAMES = ("", "a", "b")
URLS = ("/a", "/a/b", "/c")


def subsets(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


resource_rules = st.fixed_dictionaries(
    {
        "verbs": subsets((*VERBS[:2], "*")),
        "apiGroups": subsets((*GROUPS[:2], "*")),
        "resources": subsets((*RESOURCES[:4], "*/scale", "*")),
    },
    optional={"resourceNames": subsets(NAMES[1:])},
)
url_rules = st.fixed_dictionaries(
    {"verbs": subsets((*VERBS[:2], "*")), "nonResourceURLs": subsets(("/a", "/a/*", "/a*", "*"))}
)
rule_lists = st.lists(st.one_of(resource_rules, url_rules), max_size=4)


def model(policy: PolicyRule) -> set[tuple[str, ...]]:
    """Return the requests of the universe that a rule allows, by the definition of its parts."""
    allowed: set[tuple[str, ...]] = set()
    for verb in VERBS:
        if not {verb, "*"} & set(policy["verbs"]):
            continue
        for g in GROUPS:
            if not {g, "*"} & set(policy.get("apiGroups", ())):
                continue
            for resource in RESOURCES:
                sub = "*/" + resource.partition("/")[2] if "/" in resource else resource
                if not {resource, sub, "*"} & set(policy["resources"]):
                    continue
                allowed |= {
                    (verb, g, resource, name)
                    for name in NAMES
                    if name in policy.get("resourceNames", NAMES)
                }
        for url in URLS:
            for pattern in policy.get("nonResourceURLs", ()):
                if url == pattern or (pattern[-1] == "*" and url.startswith(pattern[:-1])):
                    allowed.add((verb, url))
    return allowed


@settings(max_examples=100, deadline=None)
@given(rule_lists, rule_lists)
def test_covered_rules_allow_nothing_that_the_owner_may_not(
    owner: list[PolicyRule], wanted: list[PolicyRule]
) -> None:
    held = set().union(*map(model, owner)) if owner else set()
    missing = uncovered(map(RbacRule, owner), wanted)
    requested = set().union(*map(model, wanted)) if wanted else set()
    if not missing:
        assert requested <= held
    # The missing permissions and the held ones together are the requested ones.
    reported = set().union(*(model(policy) for policy in compact(missing))) if missing else set()
    assert requested <= held | reported


@settings(max_examples=100, deadline=None)
@given(resource_rules, resource_rules)
def test_one_rule_covers_another_exactly_when_it_allows_all_of_it(
    owner: PolicyRule, wanted: PolicyRule
) -> None:
    # The universe has a verb, a group and a resource that only wildcards match.
    is_covered = not uncovered([RbacRule(owner)], [wanted])
    assert is_covered is (model(wanted) <= model(owner))


@settings(max_examples=100, deadline=None)
@given(resource_rules)
def test_rule_matches_the_model(policy: PolicyRule) -> None:
    requested = RbacRule(policy)
    expected = model(policy)
    for verb in VERBS:
        for g in GROUPS:
            for combined in RESOURCES:
                resource, _, subresource = combined.partition("/")
                for name in NAMES:
                    is_allowed = requested.allows_resource(verb, g, resource, subresource, name)
                    assert is_allowed is ((verb, g, combined, name) in expected)


def test_missing_permissions_are_merged_by_resource() -> None:
    wanted = [
        rule("get list", "secrets pods"),
        rule("get", "secrets", resourceNames=["a"]),
        rule("get", nonResourceURLs=["/x"]),
    ]
    missing = uncovered([RbacRule(rule("get", "pods"))], wanted)
    assert sorted(map(describe, compact(missing))) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
    ]
