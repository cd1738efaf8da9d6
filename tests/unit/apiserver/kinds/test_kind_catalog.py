# SPDX-License-Identifier: Apache-2.0
"""Every built-in kind: names, verbs, and a sample that survives decoding and validation."""

from typing import Any

import pytest

from rdd.api import metadata
from rdd.api.types import Object
from rdd.apiserver.kinds import catalog
from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy
from rdd.apiserver.kinds.strategy import ResourceDefinition

TIME = "2026-01-02T03:04:05Z"
MICRO = "2026-01-02T03:04:05.000006Z"
META: Object = {"name": "a", "labels": {"x": "y"}, "finalizers": ["example.com/f"]}
HOOK: Object = {
    "name": "h.example.com",
    "clientConfig": {"url": "https://h.example.com/x", "caBundle": "YQ=="},
    "rules": [
        {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "scope": "*",
        }
    ],
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {"matchLabels": {"a": "b"}},
    "sideEffects": "None",
    "timeoutSeconds": 5,
    "admissionReviewVersions": ["v1"],
}
MATCH: Object = {
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules": HOOK["rules"],
    "matchPolicy": "Exact",
}
SPEC_OF_CRD: Object = {
    "group": "example.com",
    "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
    "scope": "Namespaced",
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "default": {"a": [1, None]},
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            },
        }
    ],
    "conversion": {"strategy": "None"},
}

# group/kind → everything but kind, apiVersion and metadata
SAMPLES: dict[str, Object] = {
    "/Namespace": {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "/ConfigMap": {"immutable": False, "data": {"k": "v"}, "binaryData": {"b": "YQ=="}},
    "/Secret": {"data": {"k": "dg=="}, "type": "Opaque"},
    "/ServiceAccount": {
        "secrets": [{"name": "s"}],
        "imagePullSecrets": [{"name": "p"}],
        "automountServiceAccountToken": False,
    },
    "/Event": {
        "involvedObject": {"kind": "ConfigMap", "namespace": "n", "name": "x"},
        "reason": "R",
        "message": "m",
        "source": {"component": "c"},
        "firstTimestamp": TIME,
        "lastTimestamp": None,
        "count": 3,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "/ResourceQuota": {
        "spec": {"hard": {"pods": "5", "requests.cpu": "500m"}},
        "status": {"hard": {"pods": "5"}, "used": {"pods": "1"}},
    },
    "events.k8s.io/Event": {
        "eventTime": MICRO,
        "series": {"count": 2, "lastObservedTime": MICRO},
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "regarding": {"kind": "X", "namespace": "n", "name": "x"},
        "note": "m",
        "type": "Normal",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    "coordination.k8s.io/Lease": {
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": MICRO}
    },
    "rbac.authorization.k8s.io/Role": {
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]
    },
    "rbac.authorization.k8s.io/ClusterRole": {
        "rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    },
    "rbac.authorization.k8s.io/RoleBinding": {
        "subjects": [
            {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    },
    "rbac.authorization.k8s.io/ClusterRoleBinding": {
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
    },
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration": {"webhooks": [HOOK]},
    "admissionregistration.k8s.io/MutatingWebhookConfiguration": {
        "webhooks": [{**HOOK, "reinvocationPolicy": "Never"}]
    },
    "admissionregistration.k8s.io/ValidatingAdmissionPolicy": {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": MATCH,
            "validations": [{"expression": "true", "message": "no", "reason": "Forbidden"}],
            "failurePolicy": "Fail",
            "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}],
            "matchConditions": [{"name": "c", "expression": "true"}],
            "variables": [{"name": "v", "expression": "1"}],
        },
        "status": {},
    },
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": {
        "spec": {
            "policyName": "p",
            "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
            "matchResources": MATCH,
            "validationActions": ["Deny"],
        }
    },
    "admissionregistration.k8s.io/MutatingAdmissionPolicy": {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": MATCH,
            "variables": [{"name": "v", "expression": "1"}],
            "mutations": [
                {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test'}]"}}
            ],
            "failurePolicy": "Fail",
            "matchConditions": [{"name": "c", "expression": "true"}],
            "reinvocationPolicy": "Never",
        },
    },
    "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding": {
        "spec": {
            "policyName": "p",
            "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
            "matchResources": MATCH,
        }
    },
    "apiextensions.k8s.io/CustomResourceDefinition": {
        "spec": SPEC_OF_CRD,
        "status": {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": ["v1"],
        },
    },
    "apiregistration.k8s.io/APIService": {
        "spec": {
            "service": {"namespace": "n", "name": "s", "port": 443},
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
        "status": {},
    },
}
NAMES = {
    "apiextensions.k8s.io/CustomResourceDefinition": "as.example.com",
    "apiregistration.k8s.io/APIService": "v1.example.com",
}


def sample(kind: ResourceDefinition) -> Object:
    key = f"{kind.group}/{kind.kind}"
    meta: Object = {"name": NAMES.get(key, "a")}
    if kind.namespaced:
        meta["namespace"] = "n"
    meta |= {k: v for k, v in META.items() if k != "name"}
    if kind.kind == "Namespace":
        meta["labels"] = {"kubernetes.io/metadata.name": "a", "x": "y"}
    api_version = f"{kind.group}/v1" if kind.group else "v1"
    return {"kind": kind.kind, "apiVersion": api_version, "metadata": meta, **SAMPLES[key]}


def kind_id(kind: ResourceDefinition) -> str:
    return f"{kind.plural}.{kind.group}"


KINDS = catalog.builtin_kinds()


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_sample_round_trips_through_decoding_unchanged(kind: ResourceDefinition) -> None:
    unknown: list[str] = []
    given = sample(kind)
    decoded = catalog.decoder(kind.definition)(sample(kind), unknown)
    assert decoded == given
    assert unknown == []


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_sample_is_normalised_and_valid(kind: ResourceDefinition) -> None:
    obj = catalog.decoder(kind.definition)(sample(kind), [])
    kind.strategy.normalise(obj)
    assert obj == sample(kind), "normalising a complete object changes nothing"
    errors = metadata.validate_object_meta(
        obj["metadata"], namespaced=kind.namespaced, name_errors=kind.strategy.name_errors
    )
    assert errors + kind.strategy.validate(obj).errors == []


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_normalising_is_idempotent_and_keeps_the_order_of_members(kind: ResourceDefinition) -> None:
    decode = catalog.decoder(kind.definition)
    obj = decode(sample(kind), [])
    kind.strategy.normalise(obj)
    again = decode(obj, [])
    assert _ordered(again) == _ordered(obj)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return [(k, _ordered(v)) for k, v in value.items()]
    return [_ordered(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_hooks_accept_an_empty_body(kind: ResourceDefinition) -> None:
    decode = catalog.decoder(kind.definition)
    strategy = kind.strategy
    obj, old = decode({}, []), decode(sample(kind), [])
    strategy.normalise(obj)
    strategy.prepare_for_create(obj)
    strategy.validate(obj)
    strategy.prepare_for_update(obj, old)
    strategy.validate_update(obj, old)
    assert isinstance(strategy, BuiltinStrategy)
    strategy.warnings(obj)
    assert set(strategy.selectable_fields(obj)) == strategy.selectable_labels
    assert len(strategy.cells(obj, now=0)) == len(strategy.columns)


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_hooks_do_not_modify_the_stored_object(kind: ResourceDefinition) -> None:
    decode = catalog.decoder(kind.definition)
    for subresource in ("", *kind.subresources):
        obj, old = decode({"metadata": {"name": "a"}}, []), decode(sample(kind), [])
        kind.strategy.normalise(obj)
        kind.strategy.prepare_for_update(obj, old, subresource=subresource)
        kind.strategy.validate_update(obj, old, subresource=subresource)
        assert old == sample(kind)


def test_kinds_have_the_names_of_kubernetes() -> None:
    by_plural = {(k.group, k.plural): k for k in KINDS}
    assert by_plural["", "namespaces"].short_names == ("ns",)
    assert by_plural["", "serviceaccounts"].subresources == ("token",)
    policies = by_plural["admissionregistration.k8s.io", "validatingadmissionpolicies"]
    assert (policies.singular, policies.categories) == (
        "validatingadmissionpolicy",
        ("api-extensions",),
    )
    crd = by_plural["apiextensions.k8s.io", "customresourcedefinitions"]
    assert crd.short_names == ("crd", "crds")


def test_namespaces_are_not_deleted_as_a_collection() -> None:
    namespaces = next(k for k in KINDS if k.kind == "Namespace")
    assert isinstance(namespaces.strategy, BuiltinStrategy)
    assert "deletecollection" not in namespaces.strategy.verbs


def test_reviews_are_only_created() -> None:
    for kind in catalog.review_kinds():
        assert isinstance(kind.strategy, BuiltinStrategy)
        assert kind.strategy.verbs == ("create",)
        assert kind.strategy.name_errors("", is_prefix=False) == []
