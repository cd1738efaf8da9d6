# SPDX-License-Identifier: Apache-2.0
"""The test server: manifests, reset, clock and users."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rdd.apiserver.http.request import User
from rdd.testing import Clock, LiveServer, ManifestError, Options, Server
from rdd.testing.manifests import load, load_crds

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(plural: str = "lamps", kind: str = "Lamp") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def names(server: Server, path: str) -> list[str]:
    items = (await server.request("GET", path)).json()["items"]
    return [item["metadata"]["name"] for item in items]


# -- manifests


def test_crds_of_a_directory_are_loaded_from_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.yml").write_text(
        "kind: CustomResourceDefinition\nmetadata: {name: two}\n---\n---\n"
        "kind: List\nitems: [{kind: CustomResourceDefinition, metadata: {name: three}}]\n"
    )
    (tmp_path / "a.json").write_text('{"kind":"CustomResourceDefinition","metadata":{"name":"z"}}')
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\n")
    (tmp_path / "notes.txt").write_text("no manifest")
    assert [c["metadata"]["name"] for c in load_crds([tmp_path])] == ["z", "two", "three"]


def test_dates_stay_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: A\nday: 2001-02-03\n")
    assert load([tmp_path / "a.yaml"]) == [{"kind": "A", "day": "2001-02-03"}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("kind: ConfigMap", "contains no CustomResourceDefinition", id="no CRD"),
        pytest.param("- 1", "not a Kubernetes object", id="no object"),
        pytest.param("a: [", "while parsing", id="no YAML"),
        pytest.param(None, "No such file", id="no file"),
    ],
)
def test_invalid_manifest_is_rejected_with_its_name(
    text: str | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "crd.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ManifestError, match=rf"crd\.yaml: .*{problem}"):
        load_crds([path])


# -- the server


async def test_crds_and_objects_exist_after_the_start() -> None:
    options = Options(crds=[crd()], objects=[config_map("given", a="1")])
    async with Server(options, crds=[crd("sofas", "Sofa")]) as server:
        for plural in ("lamps", "sofas"):
            path = f"/apis/example.com/v1/namespaces/default/{plural}"
            assert (await server.request("GET", path)).status == 200
        assert await names(server, CONFIG_MAPS) == ["given"]


async def test_start_fails_with_an_invalid_crd() -> None:
    broken = crd()
    broken["spec"]["versions"][0]["schema"] = {}
    with pytest.raises(ManifestError, match="openAPIV3Schema: Required value"):
        await Server(crds=[broken]).start()


async def test_start_fails_with_two_crds_of_the_same_kind() -> None:
    with pytest.raises(ManifestError, match='not served: "LampList" is already in use'):
        await Server(crds=[crd(), crd("sofas", "Lamp")]).start()


async def test_server_that_was_not_started_raises() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        await Server().request("GET", "/version")


async def test_reset_restores_the_initial_state() -> None:
    options = Options(crds=[crd()], objects=[config_map("given", a="1")])
    async with Server(options) as server:
        before = {r.key: r.value for r in (await server.store.scan("")).records}
        revision = server.store.revision
        await server.create(config_map("added"))
        await server.request("DELETE", f"{CONFIG_MAPS}/given")
        await server.install(crd("sofas", "Sofa"))
        sofa = {"apiVersion": "example.com/v1", "kind": "Sofa", "metadata": {"name": "red"}}
        await server.create(sofa)
        changed = (await server.request("GET", f"{CRDS}/lamps.example.com")).json()
        changed["spec"]["names"]["shortNames"] = ["lp"]
        reply = await server.request("PUT", f"{CRDS}/lamps.example.com", changed)
        assert reply.status == 200
        await server.reset()
        assert {r.key: r.value for r in (await server.store.scan("")).records} == before
        assert server.store.revision > revision
        assert (await server.request("GET", "/apis/example.com/v1/sofas")).status == 404
        served = (await server.request("GET", "/apis/example.com/v1")).json()["resources"]
        assert [r.get("shortNames") for r in served] == [None]
        await server.install(crd("sofas", "Sofa"))
        assert await names(server, "/apis/example.com/v1/sofas") == []


async def test_reset_ends_watches_and_expires_old_lists() -> None:
    async with Server() as server:
        before = server.store.revision
        stream = await server.watch(CONFIG_MAPS, query={"resourceVersion": before})
        await server.create(config_map("one"))
        assert (await stream.next())["type"] == "ADDED"
        await server.reset()
        assert [e["object"]["code"] for e in await stream.rest()] == [410]
        exactly = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
        assert (await server.request("GET", CONFIG_MAPS, query=exactly)).status == 410


async def test_client_that_resumes_after_a_reset_sees_everything_deleted() -> None:
    async with Server() as server:
        made = await server.create(config_map("one"))
        since = made["metadata"]["resourceVersion"]
        await server.reset()
        async with await server.watch(CONFIG_MAPS, query={"resourceVersion": since}) as stream:
            event = await stream.next()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "one")


async def test_reset_removes_more_objects_than_one_commit_allows() -> None:
    async with Server() as server:
        for i in range(2500):
            await server.create(config_map(f"c{i}"))
        await server.reset()
        assert await names(server, CONFIG_MAPS) == []


async def test_built_in_controllers_clean_up_and_survive_a_reset() -> None:
    async with Server() as server:
        for _ in range(2):
            await server.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}
            )
            path = "/api/v1/namespaces/t"
            async with await server.watch(f"{path}/serviceaccounts") as stream:
                event = await stream.next()
                assert event["object"]["metadata"]["name"] == "default"
            await server.request("POST", f"{path}/configmaps", config_map("a"))
            query = {"fieldSelector": "metadata.name=t"}
            async with await server.watch("/api/v1/namespaces", query=query) as stream:
                await server.request("DELETE", path)
                while (await stream.next())["type"] != "DELETED":
                    pass
            await server.reset()
            accounts = await names(server, "/api/v1/serviceaccounts")
            assert accounts == ["default"] * 3


async def test_controllers_can_be_disabled() -> None:
    async with Server(Options(builtin_controllers="*,-serviceaccount")) as server:
        assert await names(server, "/api/v1/serviceaccounts") == []


async def test_frozen_clock_sets_timestamps_and_expires_events() -> None:
    clock = Clock(1_000_000_000, frozen=True)
    async with Server(Options(clock=clock, builtin_controllers="")) as server:
        made = await server.create(config_map("a"))
        assert made["metadata"]["creationTimestamp"] == "2001-09-09T01:46:40Z"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"namespace": "default"},
        }
        await server.create(event)
        await server.advance(3500)
        assert await names(server, "/api/v1/events") == ["e"]
        await server.advance(101)
        assert await names(server, "/api/v1/events") == []
        assert (await server.create(config_map("b")))["metadata"]["creationTimestamp"] == (
            "2001-09-09T02:46:41Z"
        )


def test_clock_cannot_be_moved_backwards() -> None:
    clock = Clock(5.0, frozen=True)
    clock.advance(2)
    assert clock() == 7.0
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    clock.reset()
    assert clock() == 5.0


async def test_users_have_the_permissions_of_their_roles() -> None:
    async with Server(Options(users={"jo": ["readers"]})) as server:
        path = "/api/v1/namespaces/default/configmaps"
        headers = {"Authorization": f"Bearer {server.tokens['jo']}"}
        assert (await server.request("GET", path, headers=headers)).status == 403
        assert (await server.request("GET", path, user=User("jo"))).status == 403
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "readers"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "reading",
            },
            "subjects": [
                {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
            ],
        }
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "reading"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }
        await server.create(role)
        await server.create(binding)
        assert (await server.request("GET", path, headers=headers)).status == 200


async def test_objects_of_unknown_kinds_cannot_be_created() -> None:
    async with Server() as server:
        with pytest.raises(ManifestError, match=r"example\.com/v1 Lamp: the server does not serve"):
            await server.create({"apiVersion": "example.com/v1", "kind": "Lamp"})


async def test_until_waits_for_creation_change_and_deletion() -> None:
    async with Server() as server:
        path = f"{CONFIG_MAPS}/a"
        assert await server.until(path, lambda obj: obj is None) is None
        waiting = asyncio.ensure_future(server.until(path, lambda obj: obj is not None))
        await server.create(config_map("b"))
        await server.create(config_map("a", n="1"))
        found = await waiting
        assert found is not None and found["data"] == {"n": "1"}
        changed = asyncio.ensure_future(
            server.until(path, lambda obj: obj is not None and obj["data"] == {"n": "2"})
        )
        gone = asyncio.ensure_future(server.until(path, lambda obj: obj is None))
        await server.request("PUT", path, config_map("a", n="2"))
        await changed
        await server.request("DELETE", path)
        assert await gone is None
        with pytest.raises(TimeoutError, match="the condition is still false for None"):
            await server.until(path, lambda obj: obj is not None, timeout_s=0.05)


# -- the live server


def test_live_server_writes_a_kubeconfig_for_each_user(tmp_path: Path) -> None:
    with LiveServer(Options(users={"jo": []}), directory=tmp_path) as live:
        assert live.url in live.kubeconfig.read_text()
        assert live.server.tokens["jo"] in live.kubeconfig_of("jo").read_text()
        with pytest.raises(KeyError):
            live.kubeconfig_of("nobody")


def test_live_server_can_be_used_from_other_threads() -> None:
    with LiveServer(crds=[crd()]) as live:
        directory = live.directory
        live.install(crd("sofas", "Sofa"))
        live.create(config_map("a"))
        live.advance(10)
        assert live.request("GET", f"{CONFIG_MAPS}/a").status == 200
        live.reset()
        assert live.request("GET", f"{CONFIG_MAPS}/a").status == 404
    assert not directory.exists()
    live.close()


def test_live_server_raises_the_error_of_its_start() -> None:
    with pytest.raises(ManifestError, match="no CustomResourceDefinition"):
        LiveServer(crds=[config_map("a")]).start()
