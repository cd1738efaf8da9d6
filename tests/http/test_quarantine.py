# SPDX-License-Identifier: Apache-2.0
"""Damaged objects: the server starts without them, and nothing takes their place."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.http.client import CONFIG_MAPS, CRDS, NAMESPACES, RBAC, crd, widget

from rdd.api.types import Object
from rdd.apiserver.http.request import Request, Response, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS as CONFIG_MAP_RESOURCE
from rdd.controllers.builtin.manager import BuiltinControllers
from rdd.http.exchange import parse_query
from rdd.store.sqlite import repair
from rdd.store.sqlite.store import SqliteStore

ADMIN = User("admin", ("system:masters",))
WIDGETS = "/apis/shop.example.com/v1/namespaces/default/widgets"


class Api:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.warnings: list[str] = []

    async def call(self, method: str, path: str, obj: Any = None) -> tuple[int, Object]:
        path, _, query = path.partition("?")
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = Request(
            method,
            path,
            query=parse_query(query),
            headers={"Content-Type": media, "User-Agent": "test"},
            body=orjson.dumps(obj) if obj is not None else b"",
            user=ADMIN,
        )
        response = await self.server.handle(request)
        assert isinstance(response, Response)
        self.warnings = [v for k, v in response.headers or () if k == "Warning"]
        is_json = response.body.startswith(b"{")
        return response.status, orjson.loads(response.body) if is_json else {}

    async def make(self, path: str, obj: Object) -> None:
        status, found = await self.call("POST", path, obj)
        assert status == 201, found


@asynccontextmanager
async def serving(path: Path, **options: Any) -> AsyncIterator[Api]:
    store = await SqliteStore.open(path)
    server = await open_server(store, ServerOptions(**options))
    try:
        yield Api(server)
    finally:
        await server.close()
        await store.close()


def damage(path: Path, key: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        changed = connection.execute(
            "UPDATE log SET value = substr(value, 1, 20) || x'00' || substr(value, 22) "
            "WHERE id = (SELECT max(id) FROM log WHERE key = ?)",
            (f"/registry/{key}",),
        )
        assert changed.rowcount == 1


def config_map(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "b"}}


ROLE: Object = {"metadata": {"name": "readers"}, "rules": []}
KINDS = [
    pytest.param(CONFIG_MAPS, config_map("x"), "configmaps/default/x", id="ConfigMap"),
    pytest.param(NAMESPACES, {"metadata": {"name": "team"}}, "namespaces/team", id="Namespace"),
    pytest.param(f"{RBAC}/clusterroles", ROLE, "clusterroles/readers", id="ClusterRole"),
    pytest.param(f"{RBAC}/namespaces/default/roles", ROLE, "roles/default/readers", id="Role"),
    pytest.param(
        CRDS,
        crd(),
        "apiextensions.k8s.io/customresourcedefinitions/widgets.shop.example.com",
        id="CustomResourceDefinition",
    ),
]


@pytest.mark.parametrize(("path", "obj", "key"), KINDS)
async def test_damaged_object_is_named_and_nothing_takes_its_place(
    tmp_path: Path, path: str, obj: Object, key: str
) -> None:
    file = tmp_path / "s.db"
    async with serving(file) as api:
        await api.make(path, obj)
        await api.server.custom.settled()
    damage(file, key)
    name = obj["metadata"]["name"]
    async with serving(file) as api:
        for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"metadata": {}})):
            status, found = await api.call(method, f"{path}/{name}", body)
            assert status == 500, (method, found)
            assert f'{name}" is damaged; restore or remove it' in found["message"]
        status, found = await api.call("POST", path, obj)
        assert (status, found["reason"]) == (409, "AlreadyExists")
        assert "its stored value is damaged" in found["message"]
        status, found = await api.call("PUT", f"{path}/{name}", obj)
        assert status in (409, 500), found
        status, found = await api.call("GET", path)
        assert status == 200
        assert name not in [item["metadata"]["name"] for item in found["items"]]
        assert len([w for w in api.warnings if name in w and "left out" in w]) == 1
        await api.make(CONFIG_MAPS, config_map("others-work"))
    repair.remove(file, f"/registry/{key}")
    async with serving(file) as api:
        await api.make(path, obj)
        await api.call("GET", path)
        assert api.warnings == []


async def test_lists_of_other_namespaces_carry_no_warning(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with serving(file) as api:
        await api.make(CONFIG_MAPS, config_map("x"))
    damage(file, "configmaps/default/x")
    async with serving(file) as api:
        await api.call("GET", "/api/v1/namespaces/kube-system/configmaps")
        assert api.warnings == []
        status, found = await api.call("GET", "/api/v1/configmaps?limit=1")
        assert (status, found["items"]) == (200, [])
        assert len(api.warnings) == 1


async def test_objects_are_created_in_a_damaged_namespace(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with serving(file) as api:
        await api.make(NAMESPACES, {"metadata": {"name": "team"}})
        await api.make("/api/v1/namespaces/team/configmaps", config_map("old"))
    damage(file, "namespaces/team")
    async with serving(file) as api:
        await api.make("/api/v1/namespaces/team/configmaps", config_map("new"))
        status, _ = await api.call("GET", "/api/v1/namespaces/team/configmaps/old")
        assert status == 200


async def test_default_namespaces_and_roles_may_be_damaged(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with serving(file):
        pass
    for key in ("namespaces/default", "clusterroles/view", "clusterrolebindings/cluster-admin"):
        damage(file, key)
    async with serving(file) as api:
        await api.make(CONFIG_MAPS, config_map("x"))


async def test_objects_of_a_damaged_definition_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    name = "widgets.shop.example.com"
    key = f"apiextensions.k8s.io/customresourcedefinitions/{name}"
    async with serving(file) as api:
        await api.make(CRDS, crd())
        await api.server.custom.settled()
        await api.make(WIDGETS, widget("w"))
    damage(file, key)
    async with serving(file) as api:
        assert (await api.call("GET", f"{WIDGETS}/w"))[0] == 404
    repair.remove(file, f"/registry/{key}")
    async with serving(file) as api:
        await api.make(CRDS, crd())
        await api.server.custom.settled()
        assert (await api.call("GET", f"{WIDGETS}/w"))[0] == 200


async def test_containers_of_damaged_objects_are_not_removed(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    name = "widgets.shop.example.com"
    async with serving(file) as api:
        await api.make(NAMESPACES, {"metadata": {"name": "team"}})
        await api.make("/api/v1/namespaces/team/configmaps", config_map("x"))
        await api.make(CRDS, crd())
        await api.server.custom.settled()
        await api.make(WIDGETS, widget("w"))
    damage(file, "configmaps/team/x")
    damage(file, "shop.example.com/widgets/default/w")
    async with serving(file) as api:
        await api.call("DELETE", f"{NAMESPACES}/team")
        _, found = await api.call("GET", f"{NAMESPACES}/team")
        found["spec"] = {"finalizers": []}
        status, found = await api.call("PUT", f"{NAMESPACES}/team/finalize", found)
        assert status == 403, found
        assert "configmaps/team/x" in found["message"]
        await api.call("DELETE", f"{CRDS}/{name}")
        await api.server.custom.settled()
        assert (await api.call("GET", f"{CRDS}/{name}"))[0] == 200  # terminating


async def test_dependents_of_a_damaged_owner_are_not_collected(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with serving(file) as api:
        await api.make(CONFIG_MAPS, config_map("owner"))
        _, owner = await api.call("GET", f"{CONFIG_MAPS}/owner")
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": n, "uid": u}
            for n, u in (("owner", owner["metadata"]["uid"]), ("nobody", "0-0"))
        ]
        await api.make(CONFIG_MAPS, config_map("kept", ownerReferences=references[:1]))
        await api.make(CONFIG_MAPS, config_map("collected", ownerReferences=references[1:]))
    damage(file, "configmaps/default/owner")
    async with serving(file) as api:
        client = Client(LocalTransport(api.server.handle, partial(Request, user=ADMIN)))
        controllers = BuiltinControllers(client, ["gc"], root_ca="")
        await controllers.start()
        try:
            watched = client.list_and_watch(CONFIG_MAP_RESOURCE, namespace="default")
            async with aclosing(watched) as events:
                async for event in events:
                    if event.type == "DELETED":
                        assert event.object["metadata"]["name"] == "collected"
                        break
            assert (await api.call("GET", f"{CONFIG_MAPS}/kept"))[0] == 200
        finally:
            await controllers.stop()


async def test_objects_that_are_recreated_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with serving(file) as api:
        await api.make(CONFIG_MAPS, config_map("x"))
    damage(file, "configmaps/default/x")
    async with serving(file, is_recreated=lambda key: key.endswith("/x")) as api:
        await api.make(CONFIG_MAPS, config_map("x"))
