# SPDX-License-Identifier: Apache-2.0
"""Rules of the core group's kinds."""

import base64
from typing import Any

import pytest

from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import core, quota, tlspair
from rdd.apiserver.kinds.strategy import Validation

QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
FROZEN = "Forbidden: field is immutable when `immutable` is set"


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def obj(**members: Any) -> Object:
    return {"metadata": {"name": "a", "namespace": "n"}, **members}


# ------------------------------------------------------------------ ConfigMap

configmaps = core.ConfigMapStrategy()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"data": {"k.1_-": "v"}, "binaryData": {"b": "YQ=="}}, [], id="legal"),
        pytest.param(
            {"data": {"a b": "c"}},
            [f'data[a b]: Invalid value: "a b": {CONFIG_KEY}'],
            id="illegal-key",
        ),
        pytest.param(
            {"data": {"..": ""}}, ["data[..]: Invalid value: \"..\": must not be '..'"], id="dots"
        ),
        pytest.param(
            {"binaryData": {"": ""}},
            [f'binaryData[]: Invalid value: "": {CONFIG_KEY}'],
            id="empty-binary-key",
        ),
        pytest.param(
            {"data": {"k": "c"}, "binaryData": {"k": "YQ=="}},
            ['data[k]: Invalid value: "k": duplicate of key present in binaryData'],
            id="key-in-both",
        ),
        pytest.param({"data": {"k": "x" * 1048576}}, [], id="exactly-1-MiB"),
        pytest.param(
            {"data": {"k": "x" * 1048577}},
            ["[]: Too long: may not be more than 1048576 bytes"],
            id="too-large",
        ),
        pytest.param(
            {"data": {"k": "ü" * 524289}},
            ["[]: Too long: may not be more than 1048576 bytes"],
            id="bytes-not-characters-count",
        ),
        pytest.param(
            {"metadata": {"name": "a", "finalizers": ["plain"]}},
            [
                'metadata.finalizers[0]: Invalid value: "plain": name is neither a standard '
                "finalizer name nor is it fully qualified"
            ],
            id="finalizer-without-domain",
        ),
    ],
)
def test_configmap_keys_and_size(given: Object, expected: list[str]) -> None:
    assert texts(configmaps.validate(obj(**given)).errors) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"data": {"k": "v"}, "immutable": True}, [], id="metadata-only"),
        pytest.param({"data": {"k": "w"}, "immutable": True}, [f"data: {FROZEN}"], id="data"),
        pytest.param({"data": {"k": "v"}}, [f"immutable: {FROZEN}"], id="thawing"),
        pytest.param(
            {"data": {"k": "v"}, "immutable": True, "binaryData": {"z": "YQ=="}},
            [f"binaryData: {FROZEN}"],
            id="binary",
        ),
    ],
)
def test_immutable_configmap_keeps_its_data(given: Object, expected: list[str]) -> None:
    old = obj(data={"k": "v"}, immutable=True)
    assert texts(configmaps.validate_update(obj(**given), old).errors) == expected


# --------------------------------------------------------------------- Secret

secrets = core.SecretStrategy()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_secret_gets_a_type_and_string_data_becomes_data() -> None:
    secret = obj(data={"a": "dg==", "z": "eg=="}, stringData={"a": "new", "b": "ü"})
    secrets.normalise(secret)
    assert secret == obj(data={"a": b64("new"), "b": b64("ü"), "z": "eg=="}, type="Opaque")
    assert list(secret) == ["metadata", "data", "type"]


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        pytest.param("example.com/own", {}, [], id="own-type"),
        pytest.param(
            "kubernetes.io/dockerconfigjson",
            {},
            ["data[.dockerconfigjson]: Required value"],
            id="dockerconfigjson-missing",
        ),
        pytest.param(
            "kubernetes.io/dockerconfigjson",
            {".dockerconfigjson": b64("{}")},
            [],
            id="dockerconfigjson",
        ),
        pytest.param(
            "kubernetes.io/dockerconfigjson",
            {".dockerconfigjson": b64("nope")},
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid '
                "character 'o' in literal null (expecting 'u')"
            ],
            id="dockerconfigjson-broken",
        ),
        pytest.param(
            "kubernetes.io/dockercfg",
            {".dockercfg": b64("[]")},
            [
                'data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot '
                "unmarshal array into Go value of type map[string]interface {}"
            ],
            id="dockercfg-no-object",
        ),
        pytest.param(
            "kubernetes.io/basic-auth",
            {},
            ["data[username]: Required value", "data[password]: Required value"],
            id="basic-auth-missing",
        ),
        pytest.param("kubernetes.io/basic-auth", {"username": ""}, [], id="basic-auth"),
        pytest.param(
            "kubernetes.io/ssh-auth",
            {"ssh-privatekey": ""},
            ["data[ssh-privatekey]: Required value"],
            id="ssh-auth-empty",
        ),
        pytest.param(
            "kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]: Required value"], id="tls-key"
        ),
        pytest.param(
            "kubernetes.io/service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            id="service-account-token",
        ),
    ],
)
def test_secret_types_require_their_keys(
    type_: str, data: dict[str, str], expected: list[str]
) -> None:
    assert texts(secrets.validate(obj(type=type_, data=data)).errors) == expected


def test_secret_size_counts_decoded_bytes() -> None:
    fits, too_large = b64("x" * 1048576), b64("x" * 1048577)
    assert secrets.validate(obj(type="Opaque", data={"k": fits})).errors == []
    assert texts(secrets.validate(obj(type="Opaque", data={"k": too_large})).errors) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]


def test_secret_type_cannot_change() -> None:
    old = obj(type="kubernetes.io/tls", data={"tls.crt": "", "tls.key": ""})
    assert texts(secrets.validate_update(obj(type="Opaque"), old).errors) == [
        'type: Invalid value: "Opaque": field is immutable'
    ]


def test_immutable_secret_keeps_its_data() -> None:
    old = obj(type="Opaque", data={"k": "dg=="}, immutable=True)
    changed = obj(type="Opaque", data={"k": "dw=="}, immutable=False)
    assert texts(secrets.validate_update(changed, old).errors) == [
        f"immutable: {FROZEN}",
        f"data: {FROZEN}",
    ]


def test_unusable_key_pair_is_a_warning() -> None:
    secret = obj(type="kubernetes.io/tls", data={"tls.crt": "", "tls.key": ""})
    assert secrets.validate(secret) == Validation(
        [], ["tls: failed to find any PEM data in certificate input"]
    )
    assert secrets.validate(obj(type="Opaque")).warnings == []


CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN EC PRIVATE KEY-----\nYQ==\n-----END EC PRIVATE KEY-----\n"
OTHER = b"-----BEGIN THING-----\nYQ==\n-----END THING-----\n"


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        pytest.param(
            KEY,
            CERTIFICATE,
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched",
            id="switched",
        ),
        pytest.param(
            OTHER,
            KEY,
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
            "blocks of the following types: [THING]",
            id="other-block",
        ),
        pytest.param(
            CERTIFICATE, b"", "tls: failed to find any PEM data in key input", id="no-key"
        ),
        pytest.param(
            CERTIFICATE,
            CERTIFICATE,
            "tls: found a certificate rather than a key in the PEM for the private key",
            id="certificate-as-key",
        ),
        pytest.param(
            CERTIFICATE,
            OTHER,
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
            "skipping PEM blocks of the following types: [THING]",
            id="other-block-as-key",
        ),
        pytest.param(CERTIFICATE, KEY, "x509: malformed certificate", id="no-certificate"),
    ],
)
def test_key_pair_problems_are_worded_as_in_go(
    certificate: bytes, key: bytes, problem: str
) -> None:
    assert tlspair.problem(certificate, key) == problem


# ------------------------------------------------------------------ Namespace

namespaces = core.NamespaceStrategy()


def test_new_namespace_is_active_and_has_label_and_finalizer() -> None:
    namespace: Object = {
        "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "wrong"}},
        "spec": {"finalizers": ["example.com/f"]},
        "status": {"phase": "Terminating"},
    }
    namespaces.normalise(namespace)
    namespaces.prepare_for_create(namespace)
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert namespace["spec"] == {"finalizers": ["example.com/f", "kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}


def test_generated_name_gets_its_label_on_create() -> None:
    namespace: Object = {"metadata": {"generateName": "n-"}}
    namespaces.normalise(namespace)
    assert "labels" not in namespace["metadata"]
    namespace["metadata"]["name"] = "n-x"
    namespaces.prepare_for_create(namespace)
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n-x"}


def test_namespace_names_are_labels() -> None:
    assert namespaces.name_errors("a-b", is_prefix=False) == []
    assert namespaces.name_errors("a.b", is_prefix=False) == ["must not contain dots"]


def test_finalizers_change_through_finalize_only() -> None:
    old: Object = {
        "metadata": {"name": "n"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    for subresource, kept in (("", ["kubernetes"]), ("status", ["kubernetes"]), ("finalize", [])):
        new: Object = {"metadata": {"name": "n"}, "spec": {"finalizers": []}, "status": {}}
        namespaces.prepare_for_update(new, old, subresource=subresource)
        assert new["spec"]["finalizers"] == kept, subresource


def test_finalize_reports_the_invalid_finalizer() -> None:
    bad: Object = {"metadata": {"name": "n"}, "spec": {"finalizers": ["bad name"]}}
    assert texts(namespaces.validate_update(bad, bad, subresource="finalize").errors) == [
        f'spec.finalizers[0]: Invalid value: "bad name": {QUALIFIED}',
        'spec.finalizers[0]: Invalid value: "bad name": name is neither a standard finalizer '
        "name nor is it fully qualified",
    ]


@pytest.mark.parametrize(
    ("deleted", "phase", "expected"),
    [
        pytest.param(False, "Active", [], id="active"),
        pytest.param(True, "Terminating", [], id="terminating"),
        pytest.param(
            False,
            "Terminating",
            [
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if "
                "`deletionTimestamp` is empty"
            ],
            id="terminating-too-early",
        ),
        pytest.param(
            True,
            "Active",
            [
                "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if "
                "`deletionTimestamp` is not empty"
            ],
            id="active-too-late",
        ),
    ],
)
def test_phase_agrees_with_deletion(deleted: bool, phase: str, expected: list[str]) -> None:
    namespace: Object = {"metadata": {"name": "n"}, "status": {"phase": phase}}
    if deleted:
        namespace["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    errors = namespaces.validate_update(namespace, namespace, subresource="status").errors
    assert texts(errors) == expected


def test_second_delete_removes_a_namespace_without_finalizers() -> None:
    namespace: Object = {"metadata": {"name": "n"}, "spec": {}, "status": {"phase": "Active"}}
    assert namespaces.begin_deletion(namespace, now="t")
    assert namespace["status"] == {"phase": "Terminating"}
    namespace["metadata"]["deletionTimestamp"] = "t"
    assert not namespaces.begin_deletion(namespace, now="t")
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    assert namespaces.begin_deletion(namespace, now="t")


# ------------------------------------------------------- ServiceAccount, quota


def test_service_account_keeps_only_names_of_secrets() -> None:
    account = obj(secrets=[{"name": "s", "kind": "Secret", "uid": "u"}])
    core.ServiceAccountStrategy().prepare_for_create(account)
    assert account["secrets"] == [{"name": "s"}]


quotas = quota.ResourceQuotaStrategy()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"hard": {"pods": "5", "count/widgets.example.com": "1", "example.com/gpu": "1"}},
            [],
            id="legal",
        ),
        pytest.param(
            {"hard": {"pods": "-1"}},
            ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'],
            id="negative",
        ),
        pytest.param(
            {"hard": {"pods": "500m"}},
            ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
            id="fraction-of-a-count",
        ),
        pytest.param(
            {"hard": {"nonsense": "1"}},
            [
                'spec.hard[nonsense]: Invalid value: "nonsense": must be a standard resource '
                "type or fully qualified",
                'spec.hard[nonsense]: Invalid value: "nonsense": must be a standard resource '
                "for quota",
            ],
            id="unknown-resource",
        ),
        pytest.param(
            {"scopes": ["Sometimes"]},
            ['spec.scopes: Invalid value: ["Sometimes"]: unsupported scope'],
            id="unknown-scope",
        ),
        pytest.param(
            {"scopes": ["BestEffort"], "hard": {"cpu": "1"}},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
            id="scope-of-other-resources",
        ),
        pytest.param(
            {"scopes": ["Terminating", "NotTerminating"]},
            ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
            id="conflict",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass",
                                                     "operator": "In"}]}},
            [
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least "
                "one value when `operator` is 'In' or 'NotIn' for scope selector"
            ],
            id="selector-without-values",
        ),
    ],
)  # fmt: skip
def test_quota_limits_known_resources(spec: Object, expected: list[str]) -> None:
    assert texts(quotas.validate(obj(spec=spec)).errors) == expected


def test_quota_scopes_cannot_change() -> None:
    old = obj(spec={"scopes": ["BestEffort"]})
    assert texts(quotas.validate_update(obj(spec={}), old).errors) == [
        "spec.scopes: Invalid value: null: field is immutable"
    ]


def test_quota_status_is_written_separately() -> None:
    old = obj(spec={"hard": {"pods": "1"}}, status={"used": {"pods": "1"}})
    new = obj(spec={}, status={"used": {"pods": "0"}})
    quotas.prepare_for_update(new, old, subresource="status")
    assert new["spec"] == old["spec"]
    assert quotas.validate_update(new, old, subresource="status").errors == []
    new = obj(spec={}, status={})
    quotas.prepare_for_update(new, old)
    assert new["status"] == old["status"]
