# SPDX-License-Identifier: Apache-2.0
"""kubernetes_asyncio, kr8s and lightkube: the clients that Python operators use."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import kr8s.asyncio
import kubernetes_asyncio
import kubernetes_asyncio.dynamic
import lightkube
import pytest
from kr8s.asyncio.objects import ConfigMap, new_class
from kubernetes_asyncio import client as kac
from kubernetes_asyncio.client.exceptions import ApiException
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap as LightConfigMap
from lightkube.resources.core_v1 import Namespace as LightNamespace
from lightkube.types import PatchType

from rdd.testing import LiveServer


def crontab(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "1 2 3 4 5", **spec},
    }


# -- kubernetes_asyncio


@pytest.fixture
async def kubernetes_api(server: LiveServer, connections_end: None) -> AsyncIterator[Any]:
    settings = kac.Configuration()
    await kubernetes_asyncio.config.load_kube_config(
        str(server.kubeconfig), client_configuration=settings
    )
    async with kac.ApiClient(settings) as api:
        yield api


async def test_kubernetes_asyncio_creates_watches_and_deletes(
    kubernetes_api: Any, namespace: str
) -> None:
    core: Any = kac.CoreV1Api(kubernetes_api)
    version = (await core.list_namespaced_config_map(namespace)).metadata.resource_version
    body = kac.V1ConfigMap(metadata=kac.V1ObjectMeta(name="a"), data={"k": "v"})
    await core.create_namespaced_config_map(namespace, body)
    await core.patch_namespaced_config_map("a", namespace, {"data": {"k": "w"}})
    await core.delete_namespaced_config_map("a", namespace)
    seen = []
    async with kubernetes_asyncio.watch.Watch() as watch:
        async for event in watch.stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=version,
            field_selector="metadata.name=a",
            timeout_seconds=20,
        ):
            seen.append((event["type"], event["object"].data))
            if event["type"] == "DELETED":
                break
    assert seen == [("ADDED", {"k": "v"}), ("MODIFIED", {"k": "w"}), ("DELETED", {"k": "w"})]
    with pytest.raises(ApiException) as missing:
        await core.read_namespaced_config_map("a", namespace)
    assert missing.value.status == 404


async def test_kubernetes_asyncio_applies_custom_objects(
    kubernetes_api: Any, namespace: str
) -> None:
    dynamic = await kubernetes_asyncio.dynamic.DynamicClient(kubernetes_api)
    kind = await dynamic.resources.get(api_version="stable.example.com/v1", kind="CronTab")

    async def apply(replicas: int, manager: str) -> Any:
        body = crontab("a", replicas=replicas)
        return await kind.server_side_apply(
            namespace=namespace, name="a", body=body, field_manager=manager
        )

    assert (await apply(3, "one")).spec.replicas == 3
    rejected = await apply(4, "two")  # this client returns a Status instead of raising it
    assert (rejected.kind, rejected.code, rejected.reason) == ("Status", 409, "Conflict")
    done = await kind.patch(
        namespace=namespace,
        name="a",
        body=[{"op": "replace", "path": "/spec/replicas", "value": 5}],
        content_type="application/json-patch+json",
    )
    assert done.spec.replicas == 5


# -- kr8s (which warns about versions that are newer than itself)

pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")


@pytest.fixture
async def kr8s_api(server: LiveServer, connections_end: None) -> AsyncIterator[Any]:
    api = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig))
    yield api
    # It keeps its connections open until the process ends, which would disturb later tests.
    if api._session is not None:
        await api._session.aclose()


async def test_kr8s_creates_patches_and_waits(kr8s_api: Any, namespace: str) -> None:
    body = {"metadata": {"name": "a", "namespace": namespace}, "data": {"k": "v"}}
    found = await ConfigMap(body, api=kr8s_api)
    await found.create()
    assert await found.exists()
    await found.patch({"data": {"k": "w"}})
    await found.label({"tier": "one"})
    await found.annotate({"note": "text"})
    await found.refresh()
    assert (found.data.k, found.labels["tier"]) == ("w", "one")
    names = [
        m.name async for m in kr8s_api.get("configmaps", namespace=namespace, label_selector="tier")
    ]
    assert names == ["a"]
    await found.delete()
    await found.wait("delete")
    with pytest.raises(kr8s.NotFoundError):
        await ConfigMap.get("a", namespace=namespace, api=kr8s_api)


async def test_kr8s_finds_custom_kinds_and_scales_them(kr8s_api: Any, namespace: str) -> None:
    kind: Any = new_class(
        kind="CronTab",
        version="stable.example.com/v1",
        namespaced=True,
        scalable=True,
        asyncio=True,
    )
    job = await kind(
        {**crontab("a"), "metadata": {"name": "a", "namespace": namespace}}, api=kr8s_api
    )
    await job.create()
    await job.scale(3)
    await job.refresh()
    assert job.spec.replicas == 3
    await job.patch(
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
    )
    await job.wait("condition=Ready", timeout=120)
    version = await kr8s_api.version()
    assert version["minor"] == "36"


async def test_kr8s_watches(kr8s_api: Any, namespace: str) -> None:
    body = {"metadata": {"name": "a", "namespace": namespace}, "data": {}}
    one = await ConfigMap(body, api=kr8s_api)
    await one.create()
    seen: list[tuple[str, str]] = []
    async for event, obj in kr8s_api.watch("configmaps", namespace=namespace):
        if obj.name == "a":
            seen.append((event, obj.name))
            if event == "ADDED":
                await one.delete()
            else:
                break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


# -- lightkube


@pytest.fixture
def lightkube_config(server: LiveServer) -> lightkube.KubeConfig:
    return lightkube.KubeConfig.from_file(server.kubeconfig)


def test_lightkube_synchronously(lightkube_config: lightkube.KubeConfig, namespace: str) -> None:
    client = lightkube.Client(config=lightkube_config, field_manager="tester")
    body = LightConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"k": "v"})
    client.create(body)
    client.patch(LightConfigMap, "a", {"data": {"l": "m"}}, namespace=namespace)
    found = client.get(LightConfigMap, "a", namespace=namespace)
    assert found.data == {"k": "v", "l": "m"}
    found.data = {"k": "w"}
    assert client.replace(found).data == {"k": "w"}
    ops = [{"op": "add", "path": "/data/z", "value": "1"}]
    client.patch(LightConfigMap, "a", ops, namespace=namespace, patch_type=PatchType.JSON)
    names = [
        m.metadata.name
        for m in client.list(
            LightConfigMap, namespace=namespace, fields={"metadata.name": "a"}, chunk_size=1
        )
        if m.metadata
    ]
    assert names == ["a"]
    client.delete(LightConfigMap, "a", namespace=namespace)
    with pytest.raises(ApiError) as missing:
        client.get(LightConfigMap, "a", namespace=namespace)
    assert (missing.value.status.code, missing.value.status.reason) == (404, "NotFound")
    client.close()


async def test_lightkube_applies_and_watches(
    lightkube_config: lightkube.KubeConfig, namespace: str, connections_end: None
) -> None:
    client = lightkube.AsyncClient(config=lightkube_config, field_manager="tester")
    kind = create_namespaced_resource("stable.example.com", "v1", "CronTab", "crontabs")
    body = kind.from_dict({**crontab("a"), "metadata": {"name": "a", "namespace": namespace}})
    applied = await client.apply(body)
    assert applied["spec"]["replicas"] == 1
    events = client.watch(kind, namespace=namespace)

    async def first(count: int) -> list[tuple[str, Any]]:
        found = []
        async for event, obj in events:
            found.append((event, obj["spec"]["replicas"]))
            if len(found) == count:
                break
        return found

    watching = asyncio.ensure_future(first(2))
    await asyncio.sleep(0)
    await client.patch(
        kind, "a", {"spec": {"replicas": 2}}, namespace=namespace, patch_type=PatchType.MERGE
    )
    seen = await asyncio.wait_for(watching, 120)
    assert seen[-1][1] == 2
    await client.delete(kind, "a", namespace=namespace)
    space = await client.get(LightNamespace, namespace)
    assert space.status is not None and space.status.phase == "Active"
    await client.close()


def test_lightkube_rejects_certificate_of_another_authority(server: LiveServer) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", server.port)) as connection,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(connection, server_hostname="127.0.0.1")
