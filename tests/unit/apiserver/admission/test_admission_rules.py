# SPDX-License-Identifier: Apache-2.0
"""The writes that rules select, and the version in which they are shown."""

from typing import Any

import pytest

from rdd.api.types import Object
from rdd.apiserver.admission.rules import AdmissionRule, Criteria
from rdd.apiserver.kinds.decoding import TypedDecoder
from rdd.apiserver.kinds.resources import BuiltinResource
from rdd.apiserver.kinds.strategy import ResourceDefinition, Strategy
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.state.cache import ResourceCache
from rdd.schema.node import compile_node


def make(
    group: str, version: str, plural: str, *, cache: ResourceCache | None = None,
    namespaced: bool = True, subresources: tuple[str, ...] = ("status",),
) -> Resource:  # fmt: skip
    kind = ResourceDefinition(
        group, version, plural.capitalize(), plural, plural, namespaced,
        compile_node({"type": "object"}), Strategy(), subresources=subresources,
    )  # fmt: skip
    if cache is None:
        cache = ResourceCache(f"/registry/{plural}/", namespaced=namespaced, revision=1)
    decoder = TypedDecoder(kind.kind, kind.api_version, "io.k8s.api.core.v1.ConfigMap")
    return BuiltinResource(kind, cache=cache, decoder=decoder)


PODS = make("", "v1", "pods")
NODES = make("", "v1", "nodes", namespaced=False)
NAMESPACES = make("", "v1", "namespaces", namespaced=False)
DEPLOYMENTS = make("apps", "v1", "deployments")


def rule(**members: Any) -> Object:
    return {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        **members,
    }


@pytest.mark.parametrize(
    ("members", "resource", "subresource", "matches"),
    [
        pytest.param({}, PODS, "", True, id="everything"),
        pytest.param({}, PODS, "status", False, id="star-has-no-subresources"),
        pytest.param({"resources": ["*/*"]}, PODS, "", True, id="all-and-below-itself"),
        pytest.param({"resources": ["*/*"]}, PODS, "status", True, id="all-and-below"),
        pytest.param({"resources": ["pods/*"]}, PODS, "status", True, id="below-one"),
        pytest.param({"resources": ["pods/*"]}, PODS, "", True, id="below-one-and-itself"),
        pytest.param({"resources": ["pods/*"]}, NODES, "status", False, id="below-another"),
        pytest.param({"resources": ["*/status"]}, PODS, "status", True, id="one-below-all"),
        pytest.param({"resources": ["*/status"]}, PODS, "", False, id="one-below-all-not-itself"),
        pytest.param({"resources": ["pods"]}, PODS, "", True, id="plain"),
        pytest.param({"resources": ["pods"]}, PODS, "status", False, id="plain-not-below"),
        pytest.param({"resources": ["pods/status"]}, PODS, "", False, id="below-not-itself"),
        pytest.param({"resources": ["nodes", "pods"]}, PODS, "", True, id="one-of-several"),
        pytest.param({"apiGroups": [""]}, DEPLOYMENTS, "", False, id="other-group"),
        pytest.param({"apiGroups": ["", "apps"]}, DEPLOYMENTS, "", True, id="group"),
        pytest.param({"apiVersions": ["v2"]}, PODS, "", False, id="other-version"),
        pytest.param({"operations": ["UPDATE"]}, PODS, "", False, id="other-operation"),
        pytest.param({"operations": ["UPDATE", "CREATE"]}, PODS, "", True, id="operation"),
        pytest.param({"scope": "Namespaced"}, PODS, "", True, id="namespaced"),
        pytest.param({"scope": "Namespaced"}, NODES, "", False, id="not-namespaced"),
        pytest.param({"scope": "Cluster"}, NODES, "", True, id="cluster"),
        pytest.param({"scope": "Cluster"}, PODS, "", False, id="not-cluster"),
        pytest.param({"scope": "Namespaced"}, NAMESPACES, "", False, id="namespaces-are-cluster"),
        pytest.param({"scope": "*"}, NODES, "", True, id="any-scope"),
        pytest.param({"resources": []}, PODS, "", False, id="nothing"),
    ],
)
def test_a_rule_matches_by_operation_group_version_resource_and_scope(
    members: Object, resource: Resource, subresource: str, matches: bool
) -> None:
    assert AdmissionRule.of(rule(**members)).matches("CREATE", resource, subresource) is matches


@pytest.fixture
def registry() -> ResourceRegistry:
    registry = ResourceRegistry()
    cache = ResourceCache("/registry/example.com/widgets/", namespaced=True, revision=1)
    for version in ("v1", "v2", "v3"):
        below = ("status", "scale") if version == "v3" else ("status",)
        registry.add(make("example.com", version, "widgets", cache=cache, subresources=below))
    registry.add(PODS)
    return registry


def shown(registry: ResourceRegistry, criteria: Criteria, subresource: str = "") -> list[str]:
    resource = registry.get("example.com", "v3", "widgets")
    assert resource is not None
    narrowed = criteria.narrow(registry, "CREATE", resource, subresource)
    return [] if narrowed is None else [t.resource.version for t in narrowed.targets]


@pytest.mark.parametrize(
    ("versions", "policy", "wanted"),
    [
        pytest.param(["v3"], "Equivalent", ["v3"], id="own-version"),
        pytest.param(["v1"], "Equivalent", ["v1"], id="another-version"),
        pytest.param(["v1"], "Exact", [], id="exact"),
        pytest.param(["*"], "Exact", ["v3"], id="any-version-is-the-own"),
        pytest.param(["v2", "v1"], "Equivalent", ["v1"], id="in-the-order-they-are-served"),
        pytest.param(["v9"], "Equivalent", [], id="unknown-version"),
    ],
)
def test_another_version_is_shown_only_under_match_policy_equivalent(
    registry: ResourceRegistry, versions: list[str], policy: str, wanted: list[str]
) -> None:
    hook = {"rules": [rule(apiVersions=versions)], "matchPolicy": policy}
    assert shown(registry, Criteria.of_webhook(hook)) == wanted


def test_earlier_rules_determine_the_version(registry: ResourceRegistry) -> None:
    hook = {"rules": [rule(apiVersions=["v2"]), rule(apiVersions=["v1"])]}
    assert shown(registry, Criteria.of_webhook(hook)) == ["v2"]
    hook["rules"].append(rule(apiVersions=["v3"]))
    assert shown(registry, Criteria.of_webhook(hook)) == ["v3"]


def test_a_subresource_is_not_equivalent_where_it_is_not_served(registry: ResourceRegistry) -> None:
    hook = {"rules": [rule(apiVersions=["v1"], resources=["*/*"])]}
    assert shown(registry, Criteria.of_webhook(hook), "status") == ["v1"]
    assert shown(registry, Criteria.of_webhook(hook), "scale") == []


def test_a_webhook_without_rules_selects_nothing_and_a_binding_everything(
    registry: ResourceRegistry,
) -> None:
    assert shown(registry, Criteria.of_webhook({})) == []
    assert shown(registry, Criteria.of_resources({})) == ["v3"]
    assert shown(registry, Criteria.of_resources({}), "scale") == ["v3"]


def test_excluded_rules_win_unless_they_name_objects(registry: ResourceRegistry) -> None:
    found = {"resourceRules": [rule()], "excludeResourceRules": [rule(apiVersions=["v1"])]}
    assert shown(registry, Criteria.of_resources(found)) == []
    found["excludeResourceRules"] = [rule(resourceNames=["a", "b"]), rule(resourceNames=["c"])]
    resource = registry.get("example.com", "v3", "widgets")
    assert resource is not None
    narrowed = Criteria.of_resources(found).narrow(registry, "CREATE", resource, "")
    assert narrowed is not None
    assert narrowed.excluded_names == {"a", "b", "c"}


def test_rules_with_names_are_alternatives(registry: ResourceRegistry) -> None:
    found = {
        "resourceRules": [
            rule(apiVersions=["v3"], resourceNames=["a"]),
            rule(apiVersions=["v1"], resourceNames=["b"]),
            rule(apiVersions=["v2"]),
        ]
    }
    assert shown(registry, Criteria.of_resources(found)) == ["v3", "v1", "v2"]


def test_an_invalid_selector_fails_the_matching_writes(registry: ResourceRegistry) -> None:
    selector = {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["x"]}]}
    criteria = Criteria.of_webhook({"rules": [rule()], "objectSelector": selector})
    narrowed = criteria.narrow(registry, "CREATE", PODS, "")
    assert narrowed is not None
    assert narrowed.problem == '"Near" is not a valid label selector operator'
    assert criteria.narrow(registry, "CREATE", PODS, "status") is None
