# SPDX-License-Identifier: Apache-2.0
"""Validation: the metadata of all kinds, and the rules of single kinds."""

from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    BINDINGS,
    CONFIG_MAPS,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    Api,
    binding,
    causes,
    config_map,
    namespace,
    role,
    secret,
)

from rdd.api.types import Object

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
QUALIFIED = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
    "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS "
    "subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


async def complaints(api: Api, path: str, obj: Object) -> list[str]:
    """Return the causes of an Invalid response; check that the message lists them."""
    status = await api.refused(422, "POST", path, obj)
    found = [f"{c['field']}: {c['message']}" for c in status["details"]["causes"]]
    assert status["reason"] == "Invalid"
    assert all(text in status["message"] for text in found)
    return found


# -- names


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(CONFIG_MAPS, id="configmap"),
        pytest.param(NAMESPACES, id="namespace"),
        pytest.param(f"{RBAC}/clusterroles", id="clusterrole"),
        pytest.param(ACCOUNTS, id="serviceaccount"),
    ],
)
async def test_name_is_required(path: str, api: Api) -> None:
    assert await complaints(api, path, {"metadata": {}}) == [
        "metadata.name: Required value: name or generateName is required"
    ]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-front", "back-", "a..b", "ä", "a b"])
async def test_most_names_are_dns_subdomains(name: str, api: Api) -> None:
    assert await complaints(api, CONFIG_MAPS, config_map(name)) == [
        f'metadata.name: Invalid value: "{name}": {SUBDOMAIN}'
    ]


async def test_name_has_at_most_253_characters(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("n" * 253), expect=201)
    assert (await complaints(api, CONFIG_MAPS, config_map("n" * 254)))[0].endswith(
        "must be no more than 253 characters"
    )


@pytest.mark.parametrize("name", ["a/b", "a%b", ".", ".."])
async def test_names_of_roles_are_any_path_segment(name: str, api: Api) -> None:
    await api.post(ROLES, role("system:Any_thing", []), expect=201)
    (problem,) = await complaints(api, ROLES, role(name, []))
    assert problem.startswith(f'metadata.name: Invalid value: "{name}": may not ')


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("Upper", "a lowercase RFC 1123 label must consist of", id="upper case"),
        pytest.param("a.b", "must not contain dots", id="dot"),
        pytest.param("n" * 64, "must be no more than 63 characters", id="too long"),
    ],
)
async def test_names_of_namespaces_are_dns_labels(name: str, problem: str, api: Api) -> None:
    found = await complaints(api, NAMESPACES, namespace(name))
    assert found[0].startswith(f'metadata.name: Invalid value: "{name}": {problem}')


async def test_invalid_namespace_label_value_reports_two_errors(api: Api) -> None:
    assert causes(await api.refused(422, "POST", NAMESPACES, namespace("back-"))) == [
        ("metadata.name", "FieldValueInvalid"),
        ("metadata.labels", "FieldValueInvalid"),
    ]


# -- labels, annotations, owners, finalizers


@pytest.mark.parametrize(
    ("labels", "problems"),
    [
        pytest.param({"k k": "v"}, [f'"k k": {NAME_PART}'], id="space in key"),
        pytest.param({"k": "v v"}, [f'"v v": {LABEL_VALUE}'], id="space in value"),
        pytest.param({"k": "v-"}, [f'"v-": {LABEL_VALUE}'], id="value ends badly"),
        pytest.param({"x/y/z": "v"}, [f'"x/y/z": {QUALIFIED}'], id="two slashes"),
        pytest.param({"UP/k": "v"}, [f'"UP/k": prefix part {SUBDOMAIN}'], id="bad prefix"),
        pytest.param({"/k": "v"}, ['"/k": prefix part must be non-empty'], id="empty prefix"),
        pytest.param(
            {"": "v"}, ['"": name part must be non-empty', f'"": {NAME_PART}'], id="empty key"
        ),
        pytest.param(
            {"k": "v" * 64}, [f'"{"v" * 64}": must be no more than 63 bytes'], id="long value"
        ),
        pytest.param(
            {"k" * 64: "v"},
            [f'"{"k" * 64}": name part must be no more than 63 bytes'],
            id="long key",
        ),
    ],
)
async def test_labels_follow_their_grammar(
    labels: dict[str, str], problems: list[str], api: Api
) -> None:
    assert await complaints(api, CONFIG_MAPS, config_map("x", labels=labels)) == [
        f"metadata.labels: Invalid value: {p}" for p in problems
    ]


async def test_keys_of_annotations_follow_the_same_grammar_values_do_not(api: Api) -> None:
    fine = {"shop.example.com/Note": "any text\nat all: ✓", "UPPER": ""}
    await api.post(CONFIG_MAPS, config_map("x", annotations=fine), expect=201)
    found = await complaints(
        api, CONFIG_MAPS, config_map("y", annotations={"a b": "", "c/d/e": ""})
    )
    assert found == [
        f'metadata.annotations: Invalid value: "a b": {NAME_PART}',
        f'metadata.annotations: Invalid value: "c/d/e": {QUALIFIED}',
    ]


async def test_annotations_together_have_at_most_256_kib(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", annotations={"a": "v" * (262144 - 1)}), expect=201)
    big = {"a": "v" * 200_000, "b": "v" * 62_144}
    assert await complaints(api, CONFIG_MAPS, config_map("y", annotations=big)) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def owner(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u-1", **members}


@pytest.mark.parametrize(
    ("owners", "problems"),
    [
        pytest.param([owner(uid="")], ['.uid: Invalid value: "": must not be empty'], id="uid"),
        pytest.param([owner(kind="")], ['.kind: Invalid value: "": must not be empty'], id="kind"),
        pytest.param([owner(name="")], ['.name: Invalid value: "": must not be empty'], id="name"),
        pytest.param(
            [owner(apiVersion="")],
            ['.apiVersion: Invalid value: "": version must not be empty'],
            id="apiVersion",
        ),
        pytest.param(
            [owner(apiVersion="p/q/r")],
            ['.apiVersion: Invalid value: "p/q/r": version must not be empty'],
            id="odd apiVersion",
        ),
        pytest.param(
            [owner(kind="Event")],
            [
                ': Invalid value: {"apiVersion":"v1","kind":"Event","name":"boss","uid":"u-1"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ],
            id="an event",
        ),
    ],
)
async def test_owner_references_must_be_complete(
    owners: list[Any], problems: list[str], api: Api
) -> None:
    assert await complaints(api, CONFIG_MAPS, config_map("x", ownerReferences=owners)) == [
        f"metadata.ownerReferences{p}" for p in problems
    ]


async def test_only_one_owner_can_be_the_controller(api: Api) -> None:
    two = [owner(controller=True), owner(uid="u-2", name="other", controller=True)]
    (problem,) = await complaints(api, CONFIG_MAPS, config_map("x", ownerReferences=two))
    assert problem.endswith(
        ": Only one reference can have Controller set to true. "
        'Found "true" in references for ConfigMap/boss and ConfigMap/other'
    )


async def test_duplicate_owner_references_are_merged_with_a_warning(api: Api) -> None:
    body = config_map("x", ownerReferences=[owner(), owner(), owner(uid="u-2")])
    reply = await api.call("POST", CONFIG_MAPS, body)
    assert len(reply.json()["metadata"]["ownerReferences"]) == 2
    (warning,) = reply.warnings
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries; ")
    assert warning.endswith("duplicate UID(s) observed: u-1")


@pytest.mark.parametrize("name", ["shop.example.com/x", "orphan", "kubernetes"])
async def test_finalizers_are_qualified_or_standard(name: str, api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x", finalizers=[name]), expect=201)
    assert made["metadata"]["finalizers"] == [name]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param("simple", ["metadata.finalizers[0]"], id="no domain"),
        pytest.param("a/b/c", ["metadata.finalizers"], id="two slashes"),
        pytest.param("two words", ["metadata.finalizers", "metadata.finalizers[0]"], id="space"),
    ],
)
async def test_other_finalizers_are_rejected(name: str, fields: list[str], api: Api) -> None:
    status = await api.refused(422, "POST", CONFIG_MAPS, config_map("x", finalizers=[name]))
    assert [field for field, _ in causes(status)] == fields


# -- config maps


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        pytest.param(
            {"data": {"k k": ""}},
            'data[k k]: Invalid value: "k k": a valid config key must consist of alphanumeric '
            "characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex "
            "used for validation is '[-._a-zA-Z0-9]+')",
            id="space",
        ),
        pytest.param(
            {"data": {".": ""}}, "data[.]: Invalid value: \".\": must not be '.'", id="dot"
        ),
        pytest.param(
            {"binaryData": {"..x": ""}},
            "binaryData[..x]: Invalid value: \"..x\": must not start with '..'",
            id="dots in front",
        ),
        pytest.param(
            {"data": {"same": "a"}, "binaryData": {"same": "YQ=="}},
            'data[same]: Invalid value: "same": duplicate of key present in binaryData',
            id="in both",
        ),
    ],
)
async def test_keys_of_config_maps_are_file_names(members: Object, problem: str, api: Api) -> None:
    assert await complaints(api, CONFIG_MAPS, config_map("x") | members) == [problem]


async def test_config_map_has_at_most_one_mebibyte(api: Api) -> None:
    half = "v" * (512 * 1024)
    await api.post(CONFIG_MAPS, config_map("x", {"a": half, "b": half}), expect=201)
    body = config_map("y", {"a": half, "b": half + "v"})
    assert await complaints(api, CONFIG_MAPS, body) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"data": {"k": "other"}}, "data", id="data"),
        pytest.param({"binaryData": {"b": "YQ=="}}, "binaryData", id="binaryData"),
        pytest.param({"immutable": False}, "immutable", id="made mutable"),
        pytest.param({"immutable": None}, "immutable", id="immutable removed"),
    ],
)
async def test_immutable_config_map_keeps_its_data(change: Object, field: str, api: Api) -> None:
    fixed = config_map("x", {"k": "v"}) | {"immutable": True}
    await api.post(CONFIG_MAPS, fixed)
    status = await api.refused(422, "PUT", f"{CONFIG_MAPS}/x", fixed | change)
    assert status["message"] == f'ConfigMap "x" is invalid: {field}: {IMMUTABLE}'
    relabelled = fixed | {"metadata": {"name": "x", "labels": {"a": "b"}}}
    await api.put(f"{CONFIG_MAPS}/x", relabelled, expect=200)
    await api.delete(f"{CONFIG_MAPS}/x")


# -- secrets


async def test_string_data_is_encoded_into_data_and_never_returned(api: Api) -> None:
    made = await api.post(SECRETS, secret("x", {"a": "eA=="}, stringData={"a": "over", "b": "new"}))
    assert made["data"] == {"a": "b3Zlcg==", "b": "bmV3"}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_immutable_secret_keeps_its_data(api: Api) -> None:
    fixed = secret("x", {"k": "dg=="}, immutable=True)
    await api.post(SECRETS, fixed)
    for change, field in (({"data": {}}, "data"), ({"immutable": False}, "immutable")):
        status = await api.refused(422, "PUT", f"{SECRETS}/x", fixed | change)
        assert status["message"] == f'Secret "x" is invalid: {field}: {IMMUTABLE}'
    patch = {"stringData": {"k": "other"}}
    status = await api.refused(422, "PATCH", f"{SECRETS}/x", patch, content_type=MERGE)
    assert causes(status) == [("data", "FieldValueForbidden")]


async def test_type_of_a_secret_never_changes(api: Api) -> None:
    await api.post(SECRETS, secret("x", type="shop.example.com/a"))
    status = await api.refused(422, "PUT", f"{SECRETS}/x", secret("x", type="shop.example.com/b"))
    assert status["message"] == (
        'Secret "x" is invalid: type: Invalid value: "shop.example.com/b": field is immutable'
    )


@pytest.mark.parametrize(
    ("kind", "members", "problems"),
    [
        pytest.param(
            "dockerconfigjson", {}, ["data[.dockerconfigjson]: Required value"], id="docker"
        ),
        pytest.param("dockercfg", {}, ["data[.dockercfg]: Required value"], id="old docker"),
        pytest.param(
            "dockerconfigjson",
            {"stringData": {".dockerconfigjson": "{"}},
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
                "unexpected end of JSON input"
            ],
            id="docker without JSON",
        ),
        pytest.param(
            "basic-auth",
            {},
            ["data[username]: Required value", "data[password]: Required value"],
            id="basic",
        ),
        pytest.param("ssh-auth", {}, ["data[ssh-privatekey]: Required value"], id="ssh"),
        pytest.param(
            "tls",
            {"stringData": {"tls.crt": ""}},
            ["data[tls.key]: Required value"],
            id="tls",
        ),
        pytest.param(
            "service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            id="token",
        ),
    ],
)
async def test_secrets_of_known_types_require_their_keys(
    kind: str, members: Object, problems: list[str], api: Api
) -> None:
    body = secret("x", type=f"kubernetes.io/{kind}", **members)
    assert await complaints(api, SECRETS, body) == problems


async def test_invalid_certificate_is_a_warning(api: Api) -> None:
    body = secret("x", {"tls.crt": "", "tls.key": ""}, type="kubernetes.io/tls")
    reply = await api.call("POST", SECRETS, body)
    assert reply.status == 201
    assert reply.warnings == ["tls: failed to find any PEM data in certificate input"]


async def test_secret_has_at_most_one_mebibyte(api: Api) -> None:
    body = secret("x", stringData={"k": "v" * 1_048_577})
    assert await complaints(api, SECRETS, body) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]


# -- roles


async def test_role_of_a_binding_never_changes(api: Api) -> None:
    await api.post(BINDINGS, binding("x", "one"))
    status = await api.refused(422, "PUT", f"{BINDINGS}/x", binding("x", "two"))
    assert status["message"] == (
        'RoleBinding.rbac.authorization.k8s.io "x" is invalid: roleRef: Invalid value: '
        '{"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"two"}: '
        "cannot change roleRef"
    )


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        pytest.param(
            {"apiGroups": [""], "resources": ["configmaps"]},
            "rules[0].verbs: Required value: verbs must contain at least one value",
            id="no verbs",
        ),
        pytest.param(
            {"verbs": ["get"], "apiGroups": [""]},
            "rules[0].resources: Required value: resource rules must supply at least one resource",
            id="no resources",
        ),
        pytest.param(
            {"verbs": ["get"], "resources": ["configmaps"]},
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            id="no groups",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: '
            "namespaced rules cannot apply to non-resource URLs",
            id="URLs in a role",
        ),
    ],
)
async def test_rules_must_be_complete(rule: Object, problem: str, api: Api) -> None:
    assert await complaints(api, ROLES, role("x", [rule])) == [problem]


@pytest.mark.parametrize(
    ("selectors", "field"),
    [
        pytest.param([], "aggregationRule.clusterRoleSelectors", id="none"),
        pytest.param(
            [{"matchExpressions": [{"key": "k", "operator": "Like"}]}],
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator",
            id="unknown operator",
        ),
    ],
)
async def test_aggregation_requires_selectors(selectors: list[Any], field: str, api: Api) -> None:
    body = role("x", kind="ClusterRole", aggregationRule={"clusterRoleSelectors": selectors})
    status = await api.refused(422, "POST", f"{RBAC}/clusterroles", body)
    assert field in [f for f, _ in causes(status)]
    fine = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    made = await api.post(
        f"{RBAC}/clusterroles", role("y", kind="ClusterRole", aggregationRule=fine)
    )
    assert (made["rules"], made["aggregationRule"]) == (None, fine)


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        pytest.param({"kind": "User", "apiGroup": ""}, "subjects[0].name", id="no name"),
        pytest.param({"kind": "Robot", "name": "r"}, "subjects[0].kind", id="unknown kind"),
        pytest.param(
            {"kind": "ServiceAccount", "name": "s"}, "subjects[0].namespace", id="no namespace"
        ),
        pytest.param(
            {"kind": "Group", "name": "g", "apiGroup": "odd"}, "subjects[0].apiGroup", id="group"
        ),
    ],
)
async def test_subjects_must_be_complete(subject: Object, field: str, api: Api) -> None:
    path = f"{RBAC}/clusterrolebindings"
    body = binding("x", "r", kind="ClusterRoleBinding", to_kind="ClusterRole", subjects=[subject])
    status = await api.refused(422, "POST", path, body)
    assert field in [f for f, _ in causes(status)]
