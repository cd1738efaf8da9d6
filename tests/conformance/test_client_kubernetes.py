# SPDX-License-Identifier: Apache-2.0
"""The official Python client: typed, custom objects, watches, dynamic."""

import threading
from collections.abc import Iterator
from typing import Any

import kubernetes.client.exceptions
import kubernetes.dynamic
import kubernetes.utils
import kubernetes.watch
import pytest

from rdd.testing import LiveServer

# Only some versions have type annotations, so none are used here.
client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic
utils: Any = kubernetes.utils
watch: Any = kubernetes.watch
ApiException: Any = kubernetes.client.exceptions.ApiException

CRONTABS = ("stable.example.com", "v1")


@pytest.fixture
def api(server: LiveServer) -> Iterator[Any]:
    loaded = config.new_client_from_config(str(server.kubeconfig))
    with loaded:
        yield loaded


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture
def custom(api: Any) -> Any:
    return client.CustomObjectsApi(api)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def crontab(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "1 2 3 4 5", **spec},
    }


def test_typed_objects_are_created_and_deleted(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("a", k="v"))
    assert made.metadata.uid
    assert core.read_namespaced_config_map("a", namespace).data == {"k": "v"}
    made.data = {"k": "w"}
    replaced = core.replace_namespaced_config_map("a", namespace, made)
    assert replaced.metadata.resource_version != made.metadata.resource_version
    patched = core.patch_namespaced_config_map("a", namespace, {"data": {"l": "m"}})
    assert patched.data == {"k": "w", "l": "m"}
    gone = core.delete_namespaced_config_map("a", namespace)
    assert (gone if isinstance(gone, dict) else gone.to_dict())["status"] == "Success"


def test_errors_contain_the_status(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("none", namespace)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    assert '"reason":"NotFound"' in missing.value.body
    old = core.create_namespaced_config_map(namespace, config_map("a"))
    with pytest.raises(ApiException) as twice:
        core.create_namespaced_config_map(namespace, config_map("a"))
    assert twice.value.status == 409
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "y"}})
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("a", namespace, old)
    assert stale.value.status == 409
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_config_map(namespace, config_map("Not_A_Name"))
    assert invalid.value.status == 422


def test_lists_are_selected_and_paged(core: Any, namespace: str) -> None:
    for i in range(5):
        obj = config_map(f"c{i}")
        obj.metadata.labels = {"odd": str(bool(i % 2))}
        core.create_namespaced_config_map(namespace, obj)
    chosen = core.list_namespaced_config_map(namespace, label_selector="odd=True")
    assert [o.metadata.name for o in chosen.items] == ["c1", "c3"]
    names: list[str] = []
    token = None
    while token != "":
        page = core.list_namespaced_config_map(
            namespace, limit=2, label_selector="odd", _continue=token or None
        )
        names += [o.metadata.name for o in page.items]
        token = page.metadata._continue or ""
    assert names == [f"c{i}" for i in range(5)]
    core.delete_collection_namespaced_config_map(namespace, label_selector="odd")
    assert core.list_namespaced_config_map(namespace, label_selector="odd").items == []


def test_watch_yields_typed_events(core: Any, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version

    def write() -> None:
        core.create_namespaced_config_map(namespace, config_map("a"))
        core.patch_namespaced_config_map("a", namespace, {"data": {"k": "v"}})
        core.delete_namespaced_config_map("a", namespace)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        resource_version=version,
        field_selector="metadata.name=a",
        timeout_seconds=20,
    ):
        seen.append((event["type"], event["object"].metadata.name, event["object"].data))
        if event["type"] == "DELETED":
            break
    writer.join()
    assert seen == [
        ("ADDED", "a", None),
        ("MODIFIED", "a", {"k": "v"}),
        ("DELETED", "a", {"k": "v"}),
    ]


def test_broken_watch_resumes(core: Any, namespace: str, server: LiveServer) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, config_map(name))
    server.faults.gone(1, verb="watch", namespace=namespace)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=20
    )
    with pytest.raises(ApiException) as gone:
        next(iter(stream))
    assert gone.value.status == 410
    again = watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        field_selector="metadata.name!=kube-root-ca.crt",
        timeout_seconds=1,
    )
    assert [e["object"].metadata.name for e in again] == ["a", "b", "c"]


def test_secrets_accounts_and_tokens(core: Any, namespace: str) -> None:
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"pin": "1234"})
    assert core.create_namespaced_secret(namespace, secret).data == {"pin": "MTIzNA=="}
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    core.create_namespaced_service_account(namespace, account)
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=["https://kubernetes.default.svc"])
    )
    issued = core.create_namespaced_service_account_token("robot", namespace, request)
    assert issued.status.token.count(".") == 2


def test_access_is_reviewed(api: Any, namespace: str) -> None:
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(
                verb="delete", resource="namespaces", namespace=namespace
            )
        )
    )
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed is True


def test_roles_leases_and_definitions(api: Any, namespace: str) -> None:
    rbac = client.RbacAuthorizationV1Api(api)
    role = client.V1Role(
        metadata=client.V1ObjectMeta(name="r"),
        rules=[client.V1PolicyRule(verbs=["get"], api_groups=[""], resources=["secrets"])],
    )
    assert rbac.create_namespaced_role(namespace, role).rules[0].verbs == ["get"]
    leases = client.CoordinationV1Api(api)
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="l"),
        spec=client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=5),
    )
    made = leases.create_namespaced_lease(namespace, lease)
    made.spec.holder_identity = "you"
    assert leases.replace_namespaced_lease("l", namespace, made).spec.holder_identity == "you"
    crds = client.ApiextensionsV1Api(api).list_custom_resource_definition()
    assert "crontabs.stable.example.com" in [c.metadata.name for c in crds.items]


def test_versions_and_groups(api: Any) -> None:
    assert client.VersionApi(api).get_code().minor == "36"
    groups = client.ApisApi(api).get_api_versions().groups
    assert "stable.example.com" in [g.name for g in groups]


def test_custom_objects(custom: Any, namespace: str) -> None:
    where = (*CRONTABS, namespace, "crontabs")
    made = custom.create_namespaced_custom_object(*where, crontab("a", image="x"))
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (1, 1)
    custom.patch_namespaced_custom_object(*where, "a", {"spec": {"replicas": 2}})
    status = {"status": {"replicas": 2}}
    custom.patch_namespaced_custom_object_status(*where, "a", status)
    found = custom.get_namespaced_custom_object(*where, "a")
    assert (found["status"], found["metadata"]["generation"]) == ({"replicas": 2}, 2)
    scale = custom.get_namespaced_custom_object_scale(*where, "a")
    assert scale["spec"]["replicas"] == 2
    custom.patch_namespaced_custom_object_scale(*where, "a", {"spec": {"replicas": 4}})
    listed = custom.list_cluster_custom_object(*CRONTABS, "crontabs")
    assert [i["spec"]["replicas"] for i in listed["items"] if i["metadata"]["name"] == "a"] == [4]
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*where, crontab("b", replicas=99))
    assert refused.value.status == 422
    custom.delete_namespaced_custom_object(*where, "a")


def test_dynamic_client_discovers_and_applies(api: Any, namespace: str) -> None:
    dynamic_client = dynamic.DynamicClient(api)
    crontabs = dynamic_client.resources.get(api_version="stable.example.com/v1", kind="CronTab")
    crontabs.create(body=crontab("a"), namespace=namespace)
    assert crontabs.get(name="a", namespace=namespace).spec.replicas == 1
    applied = crontabs.server_side_apply(
        namespace=namespace,
        name="a",
        body=crontab("a", image="x"),
        field_manager="tester",
        force_conflicts=True,
    )
    assert applied.spec.image == "x"
    maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
    found = maps.get(namespace=namespace, label_selector="none")
    assert found.items == []
    crontabs.delete(name="a", namespace=namespace)


def test_manifests_are_created_from_dicts(api: Any, namespace: str) -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
        "data": {"k": "v"},
    }
    utils.create_from_dict(api, obj)
    assert client.CoreV1Api(api).read_namespaced_config_map("a", namespace).data == {"k": "v"}


def test_client_retries_too_many_requests(core: Any, namespace: str, server: LiveServer) -> None:
    busy = server.faults.too_many(1, retry_after=1, resource="configmaps", namespace=namespace)
    names = [m.metadata.name for m in core.list_namespaced_config_map(namespace).items]
    assert (busy.hits, names) == (1, ["kube-root-ca.crt"])
