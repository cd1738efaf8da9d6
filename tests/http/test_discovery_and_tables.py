# SPDX-License-Identifier: Apache-2.0
"""Discovery, health, versions, OpenAPI and Tables."""

import asyncio
import json
from typing import Any

import pytest
from tests.http.api_wire import Wire
from tests.http.client import (
    ACCOUNTS,
    BINDINGS,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    WIDGETS,
    Api,
    account,
    as_user,
    binding,
    config_map,
    crd,
    event,
    lease,
    namespace,
    role,
    secret,
    widget,
)

from rdd.api.types import Object

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
TABLE = {
    "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


async def resources(api: Api, path: str) -> dict[str, Object]:
    found = await api.get(path)
    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == path.removeprefix("/apis/").removeprefix("/api/")
    return {r["name"]: r for r in found["resources"]}


# -- discovery


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        pytest.param(
            "/api/v1",
            "configmaps",
            {"kind": "ConfigMap", "namespaced": True, "shortNames": ["cm"], "verbs": ALL},
            id="configmaps",
        ),
        pytest.param(
            "/api/v1",
            "namespaces",
            {
                "kind": "Namespace",
                "namespaced": False,
                "shortNames": ["ns"],
                "verbs": [v for v in ALL if v != "deletecollection"],
            },
            id="namespaces",
        ),
        pytest.param("/api/v1", "namespaces/finalize", {"verbs": ["update"]}, id="finalize"),
        pytest.param(
            "/api/v1", "namespaces/status", {"verbs": ["get", "patch", "update"]}, id="status"
        ),
        pytest.param(
            "/api/v1",
            "serviceaccounts/token",
            {
                "kind": "TokenRequest",
                "group": "authentication.k8s.io",
                "version": "v1",
                "verbs": ["create"],
            },
            id="token",
        ),
        pytest.param(RBAC, "roles", {"namespaced": True, "verbs": ALL}, id="roles"),
        pytest.param(RBAC, "clusterroles", {"namespaced": False}, id="clusterroles"),
        pytest.param(
            ADMISSION,
            "mutatingwebhookconfigurations",
            {"categories": ["api-extensions"], "namespaced": False},
            id="webhooks",
        ),
        pytest.param(
            "/apis/authorization.k8s.io/v1",
            "localsubjectaccessreviews",
            {"namespaced": True, "verbs": ["create"]},
            id="local review",
        ),
        pytest.param(
            "/apis/authentication.k8s.io/v1",
            "selfsubjectreviews",
            {"namespaced": False, "verbs": ["create"]},
            id="self review",
        ),
        pytest.param(
            "/apis/events.k8s.io/v1", "events", {"shortNames": ["ev"], "verbs": ALL}, id="events"
        ),
        pytest.param(
            "/apis/coordination.k8s.io/v1", "leases", {"kind": "Lease", "verbs": ALL}, id="leases"
        ),
        pytest.param(
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            {"shortNames": ["crd", "crds"], "categories": ["api-extensions"]},
            id="definitions",
        ),
    ],
)
async def test_resources_are_described(path: str, name: str, expected: Object, api: Api) -> None:
    found = (await resources(api, path))[name]
    assert {k: found.get(k) for k in expected} == expected
    assert found["singularName"] == ("" if "/" in name else found["kind"].lower())


async def test_groups_are_listed_with_their_versions(api: Api) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]
    groups = {g["name"]: g for g in (await api.get("/apis"))["groups"]}
    assert "rbac.authorization.k8s.io" in groups
    one = await api.get("/apis/rbac.authorization.k8s.io")
    assert (one["kind"], one["apiVersion"]) == ("APIGroup", "v1")
    wanted = {"groupVersion": "rbac.authorization.k8s.io/v1", "version": "v1"}
    assert one["preferredVersion"] == wanted
    assert {k: v for k, v in one.items() if k not in ("kind", "apiVersion")} == groups[one["name"]]


async def test_crd_is_discoverable_until_it_is_deleted(api: Api) -> None:
    names = {"shortNames": ["wd"], "categories": ["all"]}
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
    }
    await api.install(crd(names=names, subresources=subresources))
    group = await api.get("/apis/shop.example.com")
    assert [v["version"] for v in group["versions"]] == ["v1"]
    found = await resources(api, "/apis/shop.example.com/v1")
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    assert (found["widgets"]["shortNames"], found["widgets"]["categories"]) == (["wd"], ["all"])
    assert found["widgets/scale"]["kind"] == "Scale"
    assert found["widgets/scale"]["group"] == "autoscaling"
    services = "/apis/apiregistration.k8s.io/v1/apiservices/v1.shop.example.com"
    assert (await api.get(services))["spec"]["group"] == "shop.example.com"
    await api.delete(f"{CRDS}/widgets.shop.example.com")
    await api.server.running.custom.settled()
    assert (await api.call("GET", "/apis/shop.example.com")).status == 404


async def test_versions_are_sorted_by_stability(api: Api) -> None:
    names = ["v1alpha1", "v2", "v1beta2", "v10beta1", "v1", "other", "v1beta10"]
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions: list[Object] = [
        {"name": n, "served": True, "storage": n == "v1", "schema": schema} for n in names
    ]
    await api.install(crd(versions=versions))
    group = await api.get("/apis/shop.example.com")
    assert [v["version"] for v in group["versions"]] == [
        "v2", "v1", "v10beta1", "v1beta10", "v1beta2", "v1alpha1", "other",
    ]  # fmt: skip
    assert group["preferredVersion"]["version"] == "v2"


async def test_aggregated_discovery_returns_all_groups(api: Api) -> None:
    await api.install(crd())
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    core = await api.get("/api", headers={"Accept": accept})
    assert core["kind"] == "APIGroupDiscoveryList"
    (v1,) = core["items"][0]["versions"]
    found = {r["resource"]: r for r in v1["resources"]}
    assert found["configmaps"]["responseKind"] == {
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
    }
    assert found["configmaps"]["scope"] == "Namespaced"
    assert [s["subresource"] for s in found["namespaces"]["subresources"]] == ["finalize", "status"]
    groups = await api.get("/apis", headers={"Accept": accept})
    assert "shop.example.com" in [g["metadata"]["name"] for g in groups["items"]]
    assert "v1" not in [g["metadata"].get("name") for g in groups["items"]]


async def test_root_lists_paths(api: Api) -> None:
    paths = (await api.get("/"))["paths"]
    assert {"/api", "/api/v1", "/apis", "/healthz", "/metrics", "/openapi/v2", "/version"} <= set(
        paths
    )


async def test_version_is_that_of_kubernetes(api: Api) -> None:
    version = await api.get("/version")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


# -- health and metrics


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
async def test_health_is_plain_text(name: str, api: Api) -> None:
    reply = await api.call("GET", f"/{name}")
    assert (reply.status, reply.text) == (200, "ok")
    assert reply.content_type == "text/plain; charset=utf-8"
    verbose = await api.call("GET", f"/{name}?verbose")
    *checks, last = verbose.text.splitlines()
    assert last == f"{name} check passed"
    assert checks and all(c.startswith("[+]") and c.endswith(" ok") for c in checks)
    assert (await api.call("GET", f"/{name}/ping")).text == "ok"
    assert (await api.call("GET", f"/{name}/nothing")).status == 404
    excluded = await api.call("GET", f"/{name}?verbose&exclude=ping")
    assert "[+]ping excluded: ok\n" in excluded.text


async def test_anonymous_users_can_read_health_and_version_only(api: Api) -> None:
    anonymous = {"Authorization": ""}
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await api.call("GET", path, headers=anonymous)).status == 200
    for path in ("/metrics", "/api", "/openapi/v2"):
        assert (await api.call("GET", path, headers=anonymous)).status == 403
    assert (await api.call("GET", "/api", user=as_user("jo"))).status == 200


async def test_metrics_are_in_the_text_format_of_prometheus(api: Api) -> None:
    text = (await api.call("GET", "/metrics")).text
    assert "# TYPE apiserver_registered_watchers gauge" in text
    for line in text.splitlines():
        assert line.startswith("# ") or len(line.rsplit(" ", 1)) == 2


# -- OpenAPI


async def test_openapi_index_lists_a_document_per_group_version(api: Api) -> None:
    await api.install(crd())
    paths = (await api.get("/openapi/v3"))["paths"]
    for name in (
        "api/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/shop.example.com/v1",
        "version",
    ):
        url = paths[name]["serverRelativeURL"]
        assert url.startswith(f"/openapi/v3/{name}?hash=")
        reply = await api.call("GET", url)
        assert (reply.status, reply.json()["openapi"]) == (200, "3.0.0")


async def test_hash_of_a_document_changes_with_its_schema(api: Api) -> None:
    await api.install(crd())

    async def url() -> str:
        paths = (await api.get("/openapi/v3"))["paths"]
        return str(paths["apis/shop.example.com/v1"]["serverRelativeURL"])

    before = await url()
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"new": {"type": "string"}}}}
    ops = [{"op": "replace", "path": "/spec/versions/0/schema", "value": schema}]
    path = f"{CRDS}/widgets.shop.example.com"
    await api.patch(path, ops, "application/json-patch+json")
    await api.server.running.custom.settled()
    assert await url() != before


async def test_openapi_documents_describe_built_in_kinds(api: Api) -> None:
    v3 = await api.get("/openapi/v3/api/v1")
    kind = v3["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"]
    assert kind["properties"]["immutable"]["type"] == "boolean"
    gvk = [{"group": "", "kind": "ConfigMap", "version": "v1"}]
    assert kind["x-kubernetes-group-version-kind"] == gvk
    one = v3["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    assert one["get"]["operationId"] == "readCoreV1NamespacedConfigMap"
    assert one["patch"]["x-kubernetes-action"] == "patch"
    v2 = await api.get("/openapi/v2")
    assert v2["swagger"] == "2.0"
    old = v2["definitions"]["io.k8s.api.core.v1.ConfigMap"]
    assert old["x-kubernetes-group-version-kind"] == gvk
    assert (await api.call("GET", "/openapi/v2", headers={"Accept": "text/html"})).status == 406


async def test_openapi_documents_describe_custom_kinds(api: Api) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "description": "what is wanted",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "description": "how large"},
                    "port": {"x-kubernetes-int-or-string": True},
                    "hue": {"type": "string", "nullable": True},
                },
            }
        },
    }
    await api.install(crd(schema=schema))
    v3 = await api.get("/openapi/v3/apis/shop.example.com/v1")
    found = v3["components"]["schemas"]["com.example.shop.v1.Widget"]
    spec = found["properties"]["spec"]
    assert (spec["description"], spec["required"]) == ("what is wanted", ["size"])
    assert spec["properties"]["size"]["minimum"] == 1
    assert set(found["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "com.example.shop.v1.WidgetList" in v3["components"]["schemas"]
    v2 = await api.get("/openapi/v2")
    old = v2["definitions"]["com.example.shop.v1.Widget"]["properties"]["spec"]
    assert old["properties"]["size"]["description"] == "how large"


# -- Tables and partial objects

WEBHOOKS = {"metadata": {"name": "x"}, "webhooks": []}
POLICY = {
    "metadata": {"name": "x"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["things"],
                }
            ]
        },
        "validations": [{"expression": "true"}, {"expression": "true"}],
    },
}
POLICY_BINDING = {
    "metadata": {"name": "x"},
    "spec": {"policyName": "none", "validationActions": ["Deny"]},
}
USERS = [
    {"kind": "User", "name": "jo"},
    {"kind": "Group", "name": "g"},
    {"kind": "ServiceAccount", "name": "s", "namespace": "default"},
]


@pytest.mark.parametrize(
    ("path", "obj", "columns", "cells"),
    [
        pytest.param(
            CONFIG_MAPS, config_map("x", {"a": "", "b": ""}), "Name Data Age", ["x", 2], id="cm"
        ),
        pytest.param(
            SECRETS, secret("x", {"a": ""}), "Name Type Data Age", ["x", "Opaque", 1], id="secret"
        ),
        pytest.param(ACCOUNTS, account("x"), "Name Age", ["x"], id="serviceaccount"),
        pytest.param(NAMESPACES, namespace("x"), "Name Status Age", ["x", "Active"], id="ns"),
        pytest.param(
            LEASES, lease("x", {"holderIdentity": "me"}), "Name Holder Age", ["x", "me"], id="lease"
        ),
        pytest.param(ROLES, role("x"), "Name Created At", ["x"], id="role"),
        pytest.param(
            BINDINGS,
            binding("x", "r", subjects=USERS),
            "Name Role Age Users Groups ServiceAccounts",
            ["x", "Role/r", ..., "jo", "g", "default/s"],
            id="rolebinding",
        ),
        pytest.param(
            EVENTS,
            event("x", reason="Why", message="text", type="Normal", count=4),
            "Last Seen Type Reason Object Subobject Source Message First Seen Count Name",
            ["<unknown>", "Normal", "Why", "thing/t", "", "", "text", "<unknown>", 4, "x"],
            id="event",
        ),
        pytest.param(
            f"{ADMISSION}/validatingwebhookconfigurations",
            WEBHOOKS,
            "Name Webhooks Age",
            ["x", 0],
            id="webhooks",
        ),
        pytest.param(
            f"{ADMISSION}/validatingadmissionpolicies",
            POLICY,
            "Name Validations ParamKind Age",
            ["x", 2, "<unset>"],
            id="policy",
        ),
        pytest.param(
            f"{ADMISSION}/validatingadmissionpolicybindings",
            POLICY_BINDING,
            "Name PolicyName ParamRef Age",
            ["x", "none", "<unset>"],
            id="policy binding",
        ),
        pytest.param(CRDS, crd(), "Name Created At", ["widgets.shop.example.com"], id="definition"),
    ],
)
async def test_tables_have_the_columns_of_kubectl(
    path: str, obj: Object, columns: str, cells: list[Any], api: Api
) -> None:
    made = await api.post(path, obj)
    name = made["metadata"]["name"]
    for where in (f"{path}/{name}", f"{path}?fieldSelector=metadata.name={name}"):
        table = await api.get(where, headers=TABLE)
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert " ".join(c["name"] for c in table["columnDefinitions"]) == columns
        (row,) = table["rows"]
        assert len(row["cells"]) == len(table["columnDefinitions"])
        shown = row["cells"][: len(cells)]
        assert [c if e is not ... else ... for c, e in zip(shown, cells, strict=True)] == cells
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("include", "kind"),
    [
        pytest.param("None", None, id="none"),
        pytest.param("Metadata", "PartialObjectMetadata", id="metadata"),
        pytest.param("Object", "ConfigMap", id="object"),
        pytest.param("", "PartialObjectMetadata", id="default"),
    ],
)
async def test_rows_include_the_object_as_requested(
    include: str, kind: str | None, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    table = await api.get(CONFIG_MAPS, headers=TABLE, query={"includeObject": include})
    obj = table["rows"][0].get("object")
    assert (obj and obj.get("kind")) == kind


async def test_unknown_include_object_is_rejected(api: Api) -> None:
    query = {"includeObject": "Some"}
    reply = await api.call("GET", CONFIG_MAPS, headers=TABLE, query=query)
    assert reply.status in (400, 422)


async def test_tables_are_paged_like_lists(api: Api) -> None:
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, config_map(name))
    table = await api.get(CONFIG_MAPS, headers=TABLE, query={"limit": 1})
    assert [r["cells"][0] for r in table["rows"]] == ["a"]
    query = {"continue": table["metadata"]["continue"]}
    rest = await api.get(CONFIG_MAPS, headers=TABLE, query=query)
    assert [r["cells"][0] for r in rest["rows"]] == ["b"]


async def test_printer_columns_are_read_from_the_object(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large"},
        {"name": "Hue", "type": "string", "jsonPath": ".spec.hue", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "First", "type": "string", "jsonPath": ".spec.tags[0]"},
    ]
    await api.install(crd(additionalPrinterColumns=columns))
    await api.post(WIDGETS, widget("w", {"size": 3, "tags": ["t", "u"]}))
    table = await api.get(f"{WIDGETS}/w", headers=TABLE)
    assert [(c["name"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Hue", 1),
        ("Since", 0),
        ("First", 0),
    ]
    cells = table["rows"][0]["cells"]
    assert (cells[0], cells[1], cells[2], cells[4]) == ("w", 3, None, "t")


async def test_custom_resources_without_columns_have_an_age_column(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("w"))
    table = await api.get(WIDGETS, headers=TABLE)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_partial_objects_contain_only_metadata(version: str, api: Api) -> None:
    made = await api.post(SECRETS, secret("x", {"a": "MQ=="}))
    accept = f"application/json;as=PartialObjectMetadata;v={version};g=meta.k8s.io"
    one = await api.get(f"{SECRETS}/x", headers={"Accept": accept})
    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": made["metadata"],
    }
    accept = f"application/json;as=PartialObjectMetadataList;v={version};g=meta.k8s.io"
    found = await api.get(SECRETS, headers={"Accept": accept})
    assert found["kind"] == "PartialObjectMetadataList"
    assert [o["metadata"]["name"] for o in found["items"]] == ["x"]
    assert "MQ==" not in json.dumps(found)


async def test_error_is_a_status_in_any_representation(api: Api) -> None:
    status = await api.refused(404, "GET", f"{CONFIG_MAPS}/none", headers=TABLE)
    assert status["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("POST", "/apis/events.k8s.io/v9", 404, id="unknown version"),
        pytest.param("POST", "/apis/events.k8s.io/v1", 405, id="known version"),
        pytest.param("PUT", "/api", 405, id="core versions"),
        pytest.param("PUT", "/openapi/v3/nope", 404, id="unknown document"),
        pytest.param("PUT", "/openapi/v3/api/v1", 200, id="known document"),
        pytest.param("HEAD", "/.well-known/openid-configuration", 405, id="issuer"),
    ],
)
async def test_other_methods_are_refused_only_where_something_is_served(
    method: str, path: str, code: int, api: Api
) -> None:
    assert (await api.call(method, path)).status == code


async def test_key_set_has_one_representation(api: Api) -> None:
    accept = {"Accept": "application/json"}
    status = await api.refused(406, "GET", "/openid/v1/jwks", headers=accept)
    assert status["message"] == (
        "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json"
    )
    assert (await api.call("GET", "/openid/v1/jwks")).status == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz?verbose"])
async def test_health_and_denials_must_not_be_sniffed(path: str, api: Api) -> None:
    header = ("X-Content-Type-Options", "nosniff")
    assert header in (await api.call("GET", path)).headers
    anonymous = {"Authorization": ""}
    denied = await api.call("GET", "/metrics", headers=anonymous)
    assert denied.status == 403
    assert header in denied.headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_unknown_document_is_an_empty_404(method: str, api: Api) -> None:
    reply = await api.call(method, "/openapi/v3/nope")
    assert (reply.status, reply.body, reply.content_type) == (404, b"", "")


async def test_documents_have_the_media_types_of_kubernetes(api: Api) -> None:
    assert (await api.call("GET", "/openapi/v3")).content_type == "text/plain; charset=utf-8"
    garbage = {"Accept": "text/html"}
    for path in ("/openapi/v2", "/openapi/v3/api/v1"):
        reply = await api.call("GET", path, headers=garbage)
        assert (reply.status, reply.body) == (406, b"")
    status = await api.refused(406, "GET", "/version", headers=garbage)
    assert status["message"] == "406: Not Acceptable\n\nAvailable representations: application/json"


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/events.k8s.io/", "/api/v1"])
async def test_discovery_has_no_tables(path: str, api: Api) -> None:
    status = await api.refused(406, "GET", path, headers={"Accept": TABLE["Accept"].split(",")[0]})
    assert status["message"].startswith("only the following media types are accepted: ")


@pytest.mark.parametrize("path", ["/healthz/etcd", "/livez/log", "/readyz/ping"])
async def test_health_has_the_checks_of_kubernetes(path: str, api: Api) -> None:
    assert (await api.call("GET", path)).body == b"ok"


async def test_table_of_a_dry_run_has_no_version(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("dry"), query={"dryRun": "All"}, headers=TABLE)
    assert (created["kind"], created["metadata"]) == ("Table", {})
    assert [row["cells"][0] for row in created["rows"]] == ["dry"]


async def test_encoded_slash_separates_segments(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.refused(404, "GET", f"{CONFIG_MAPS}/a%2Fb")


async def test_api_service_of_another_server_is_unavailable(api: Api) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    obj = {
        "metadata": {"name": "v1.a.example.com"},
        "spec": {
            "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1,
            "versionPriority": 1, "service": {"name": "s", "namespace": "n"},
        },
    }  # fmt: skip
    await api.post(path, obj)
    async with asyncio.timeout(30):
        while True:
            found = await api.get(f"{path}/v1.a.example.com")
            if found["status"].get("conditions"):
                break
            await asyncio.sleep(0)
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "False")
    assert condition["reason"] == "ServiceNotFound"
    assert condition["message"] == 'service/s in "n" is not present'


async def test_documents_describe_watches_and_discovery(api: Api) -> None:
    index = (await api.get("/openapi/v3"))["paths"]
    for name in ("api", "apis", "apis/events.k8s.io", "openid/v1/jwks", "version"):
        document = await api.get(f"/openapi/v3/{name}")
        assert list(document["paths"]) == [f"/{name}/"]
        assert name in index
    v2 = await api.get("/openapi/v2")
    for path in ("/api/", "/api/v1/", "/apis/", "/apis/events.k8s.io/v1/", "/version/"):
        assert "get" in v2["paths"][path]
    watch = v2["paths"]["/api/v1/watch/namespaces/{namespace}/configmaps/{name}"]
    assert watch["get"]["x-kubernetes-action"] == "watch"
    assert watch["get"]["responses"]["200"]["schema"]["$ref"].endswith(".WatchEvent")
    assert {"labelSelector", "watch"} <= {p["name"] for p in watch["parameters"]}
    assert v2["definitions"]["io.k8s.api.core.v1.ConfigMapList"]["description"] == (
        "ConfigMapList is a resource containing a list of ConfigMap objects."
    )


async def test_service_levels_count_the_results_of_checks(api: Api) -> None:
    assert (await api.call("GET", "/healthz")).status == 200
    text = (await api.call("GET", "/metrics/slis")).text
    assert 'kubernetes_healthcheck{name="etcd",type="healthz"} 1\n' in text
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1\n' in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, 200) for path in ("/", "/api/", "/apis/", "/apis//", "/version/")),
        ("/.well-known/openid-configuration/", 200),
        *((path, 404) for path in ("/healthz/", "/livez/ping/", "/metrics/", "/metrics/slis/")),
        *((path, 404) for path in ("/openapi/v2/", "/openapi/v3/", "/openapi/v3/version/", "//")),
        *((path, 404) for path in ("//version", "//api/v1/namespaces", "//healthz")),
    ],
)
async def test_slashes_matter_except_after_documents(path: str, status: int, api: Api) -> None:
    assert (await api.call("GET", path)).status == status


@pytest.mark.parametrize("path", ["/%76ersion", "/healthz%2Fping", "/%61pis", "/api%2Fv1"])
async def test_paths_are_decoded_before_they_are_routed(path: str, api: Api) -> None:
    assert (await api.call("GET", path)).status == 200


@pytest.mark.parametrize("path", ["/version%", "/api/v1/namespaces/%zz", "/healthz/%4"])
async def test_malformed_escape_is_a_bad_request(path: str, wire: Wire) -> None:
    answer = await wire.send("GET", path)
    assert (answer.status, answer.body) == (400, b"400 Bad Request")
