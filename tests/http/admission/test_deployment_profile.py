# SPDX-License-Identifier: Apache-2.0
"""Locks of a deployment profile hold against every write of every identity."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.admission.admission_world import ADMIN, Reply, World, patch_of, webhook

from rdd.api import names
from rdd.api.types import Object
from rdd.apiserver.admission.exemption import DAEMON
from rdd.apiserver.http.request import User
from rdd.kinds.app import App
from rdd.kinds.container import ContainerCreateRequest
from rdd.kinds.crd import definition_of
from rdd.kinds.image import ImageBuildRequest, ImagePullRequest, ImageTagRequest
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM
from rdd.kinds.resource import Checkout, Resource
from rdd.profiles import reading
from rdd.profiles.current import CurrentProfile
from rdd.profiles.places import Places

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPS = f"{names.APP_API}/apps"
APP = f"{APPS}/app"
LIMA = f"/apis/{names.LIMA_GROUP}/v1alpha1/namespaces/default/limavms"
RESOURCES = f"{names.RDD_API}/resources"
CHECKOUTS = f"{names.RDD_API}/namespaces/default/checkouts"
ENGINE = f"/apis/{names.CONTAINERS_GROUP}/v1alpha1/namespaces/default"
COPY = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps"
SERVICE_ACCOUNT = User("system:serviceaccount:default:a", ("system:masters",))
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
KINDS: tuple[type[Kind], ...] = (
    App, LimaVM, Resource, Checkout, ImagePullRequest, ImageTagRequest, ImageBuildRequest,
    ContainerCreateRequest,
)  # fmt: skip

LOCKS = """
app:
  defaults: {containerEngine: {name: containerd}, virtualMachine: {memory: 8Gi}}
  locked:
    kubernetes: {enabled: false}
    virtualMachine: {type: host, cpus: 2}
    proxy: {httpProxy: ""}
"""


class ProfileWorld(World):
    """A server with the kinds of rdd and a profile that can change."""

    path: Path

    def write(self, text: str) -> None:
        self.path.write_text(text)

    async def call(self, method: str, path: str, obj: Any = None, **options: Any) -> Reply:
        """Send a request; objects of rdd's kinds get theirs from the path."""
        for kind in KINDS:
            if isinstance(obj, dict) and path.endswith(f"/{kind.plural}") and "kind" not in obj:
                obj = {"apiVersion": f"{kind.group}/v1alpha1", "kind": kind.kind, **obj}
        return await super().call(method, path, obj, **options)

    async def app(self, **spec: Any) -> Object:
        return await self.make(APPS, app(**spec))

    async def patch(self, path: str, change: Any, **options: Any) -> tuple[int, str]:
        reply = await self.call("PATCH", path, change, **{"media": MERGE, **options})
        return reply.status, reply.message


def app(**spec: Any) -> Object:
    return {
        "apiVersion": f"{names.APP_GROUP}/v1alpha1",
        "kind": "App",
        "metadata": {"name": "app"},
        "spec": {"running": False, **spec},
    }


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[ProfileWorld]:
    profile = CurrentProfile(Places("2", tmp_path / "etc", tmp_path / "user"))
    profile.places.system_dir.mkdir(mode=0o755)
    world = await ProfileWorld.open(profile=profile)
    assert isinstance(world, ProfileWorld)
    world.path = profile.places.system_dir / "rancher-desktop-2.yaml"
    for kind in KINDS:
        await world.make(CRDS, definition_of(kind))
    for name in ("default", names.SYSTEM_NAMESPACE):
        await world.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    await world.server.custom.settled()
    try:
        yield world
    finally:
        await world.server.close()


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProfileWorld]:
    monkeypatch.setattr(reading, "_ROOT", os.getuid())
    async with opened(tmp_path) as found:
        yield found


async def test_without_a_profile_nothing_is_refused(world: ProfileWorld) -> None:
    made = await world.app(kubernetes={"enabled": True})
    assert "virtualMachine" not in made["spec"]
    assert (await world.patch(APP, {"spec": {"running": True}}))[0] == 200
    await world.make(COPY, {"metadata": {"name": "profile"}})


@pytest.mark.parametrize("method", ["create", "apply", "put"])
async def test_new_app_gets_what_its_request_leaves_out(world: ProfileWorld, method: str) -> None:
    world.write(LOCKS)
    wanted = app(virtualMachine={"memory": "4Gi"})
    if method == "apply":
        reply = await world.call("PATCH", APP, wanted, media=APPLY, query="fieldManager=a")
    elif method == "put":
        reply = await world.call("PUT", APP, wanted)
    else:
        reply = await world.call("POST", APPS, wanted)
    assert reply.status in (201, 404), reply.body  # custom resources are not created by PUT
    if reply.status == 201:
        spec = reply.body["spec"]
        assert spec["virtualMachine"] == {"memory": "4Gi", "type": "host", "cpus": 2}
        assert spec["containerEngine"] == {"name": "containerd"}
        assert spec["kubernetes"] == {"enabled": False}


async def test_new_app_cannot_deviate(world: ProfileWorld) -> None:
    world.write(LOCKS)
    reply = await world.call("POST", APPS, app(kubernetes={"enabled": True}))
    assert reply.status == 403
    assert f"spec.kubernetes.enabled is locked to false by {world.path}:5" in reply.message


@pytest.mark.parametrize("user", [ADMIN, DAEMON, SERVICE_ACCOUNT], ids=["admin", "daemon", "sa"])
@pytest.mark.parametrize(
    ("media", "change"),
    [
        pytest.param(MERGE, {"spec": {"kubernetes": {"enabled": True}}}, id="merge"),
        pytest.param(MERGE, {"spec": {"virtualMachine": None}}, id="remove"),
        pytest.param(
            JSON_PATCH,
            [{"op": "replace", "path": "/spec/kubernetes/enabled", "value": True}],
            id="json",
        ),
        pytest.param(
            MERGE,
            {"metadata": {"annotations": {names.CPUS_DEFAULTED: "true"}}},
            id="mark as default",
        ),
        pytest.param(
            MERGE,
            {"spec": {"proxy": {"httpProxy": "http://p:1"}, "running": True}},
            id="with a start",
        ),
    ],
)
async def test_locked_setting_cannot_change(
    world: ProfileWorld, user: User, media: str, change: Any
) -> None:
    world.write(LOCKS)
    before = await world.app()
    status, message = await world.patch(APP, change, media=media, user=user)
    assert status == 403
    assert str(world.path) in message
    assert (await world.call("GET", APP)).body == before


async def test_whole_object_cannot_change_a_lock(world: ProfileWorld) -> None:
    world.write(LOCKS)
    stored = await world.app()
    stored["spec"]["kubernetes"]["enabled"] = True
    assert (await world.call("PUT", APP, stored)).status == 403
    applied = app(kubernetes={"enabled": True})
    options = "fieldManager=a&force=true"
    assert (await world.call("PATCH", APP, applied, media=APPLY, query=options)).status == 403


async def test_mutating_webhook_cannot_undo_a_lock(world: ProfileWorld) -> None:
    world.write(LOCKS)
    hook = world.hook(
        "undo",
        **patch_of({"op": "replace", "path": "/spec/kubernetes", "value": {"enabled": True}}),
    )
    await world.mutating("undo", webhook("undo", hook, resources=["apps"], group="*"))
    reply = await world.call("POST", APPS, app())
    assert reply.status == 403, reply.body
    assert "spec.kubernetes.enabled is locked" in reply.message


async def test_locked_settings_can_be_written_in_another_form(world: ProfileWorld) -> None:
    world.write("app: {locked: {virtualMachine: {memory: 4Gi}}}")
    await world.app()
    change = {"spec": {"virtualMachine": {"memory": "4096Mi"}}}
    assert (await world.patch(APP, change))[0] == 200


async def test_app_that_became_invalid_goes_on_but_does_not_start(world: ProfileWorld) -> None:
    await world.app(kubernetes={"enabled": True}, running=True)
    world.write(LOCKS)
    observed = {"status": {"virtualMachineType": "host"}}
    for path, change in (
        (APP, {"metadata": {"labels": {"a": "b"}}}),
        (f"{APP}/status", observed),
        (APP, {"spec": {"running": False}}),
        (APP, {"spec": {"application": {"updates": {"enabled": False}}}}),
    ):
        assert (await world.patch(path, change))[0] == 200
    status, message = await world.patch(APP, {"spec": {"running": True}})
    assert status == 403
    for name in ("kubernetes.enabled", "virtualMachine.type", "virtualMachine.cpus"):
        assert f"spec.{name} is locked" in message
    assert "`rdd profile accept`" in message
    accepted = {"kubernetes": {"enabled": False}, "virtualMachine": {"type": "host", "cpus": 2}}
    assert (await world.patch(APP, {"spec": accepted}))[0] == 200
    assert (await world.patch(APP, {"spec": {"running": True}}))[0] == 200
    assert (await world.call("DELETE", APP)).status == 200


async def test_broken_profile_starts_nothing(world: ProfileWorld) -> None:
    await world.app()
    world.write("app: {locked: {kubernetes: {enabled: 5}}}")
    status, message = await world.patch(APP, {"spec": {"running": True}})
    assert status == 403
    assert f"{world.path}:1: app.locked.kubernetes.enabled" in message
    for path, obj in (
        (RESOURCES, resource()),
        (f"{ENGINE}/imagepullrequests", request(repoTag="alpine")),
        (f"{ENGINE}/containercreaterequests", request(image="alpine", state="running")),
        (LIMA, machine(running=True)),
    ):
        reply = await world.call("POST", path, obj)
        assert (reply.status, str(world.path) in reply.message) == (403, True), reply.body
    world.write(LOCKS)
    accepted = {"virtualMachine": {"type": "host", "cpus": 2}, "running": True}
    assert (await world.patch(APP, {"spec": accepted}))[0] == 200


async def test_status_cannot_claim_another_driver(world: ProfileWorld) -> None:
    world.write("app: {locked: {virtualMachine: {type: qemu}}}")
    await world.app()
    path = f"{APP}/status"
    status, message = await world.patch(path, {"status": {"virtualMachineType": "host"}})
    assert status == 403
    assert "spec.virtualMachine.type is locked" in message
    assert (await world.patch(path, {"status": {"virtualMachineType": "qemu"}}))[0] == 200


# -- machines


def machine(name: str = "vm", *, running: bool = False, **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"running": running, "templateRef": {"name": "t"}},
    }


async def test_machines_besides_that_of_the_app_are_refused(world: ProfileWorld) -> None:
    await world.make(LIMA, machine("old"))
    made = await world.app()
    world.write("limavm: {machines: app}")
    reply = await world.call("POST", LIMA, machine())
    assert reply.status == 403
    assert f"limavm.machines, {world.path}:1" in reply.message
    assert (await world.patch(f"{LIMA}/old", {"spec": {"running": True}}))[0] == 403
    assert (await world.patch(f"{LIMA}/old", {"metadata": {"labels": {"a": "b"}}}))[0] == 200
    owner = {
        "apiVersion": f"{names.APP_GROUP}/v1alpha1",
        "kind": "App",
        "name": "app",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    # The owner alone makes no machine that of the App: its name does, too.
    assert (await world.call("POST", LIMA, machine(ownerReferences=[owner]))).status == 403
    assert (await world.call("POST", LIMA, machine("rd"))).status == 403
    await world.make(LIMA, machine("rd", running=True, ownerReferences=[owner]))


async def test_machine_of_an_app_that_deviates_does_not_start(world: ProfileWorld) -> None:
    made = await world.app(kubernetes={"enabled": True})
    reference = {"kind": "App", "name": "app", "apiVersion": f"{names.APP_GROUP}/v1alpha1"}
    owner = {**reference, "uid": made["metadata"]["uid"]}
    await world.make(LIMA, machine("rd", ownerReferences=[owner]))
    world.write(LOCKS)
    status, message = await world.patch(f"{LIMA}/rd", {"spec": {"running": True}})
    assert status == 403
    assert "spec.kubernetes.enabled is locked" in message


@pytest.mark.parametrize("request_", [names.RESTART_REQUESTED, names.RESET_REQUESTED])
async def test_machine_that_runs_otherwise_is_not_restarted(
    world: ProfileWorld, request_: str
) -> None:
    made = await world.app(kubernetes={"enabled": True})
    reference = {"kind": "App", "name": "app", "apiVersion": f"{names.APP_GROUP}/v1alpha1"}
    owner = {**reference, "uid": made["metadata"]["uid"]}
    await world.make(LIMA, machine("rd", running=True, ownerReferences=[owner]))
    world.write(LOCKS)
    wanted = {"metadata": {"annotations": {request_: "now"}}}
    status, message = await world.patch(f"{LIMA}/rd", wanted)
    assert (status, "spec.kubernetes.enabled is locked" in message) == (403, True)
    world.write("")
    assert (await world.patch(f"{LIMA}/rd", wanted))[0] == 200
    world.write(LOCKS)  # one that was requested before does not keep it from being stopped
    assert (await world.patch(f"{LIMA}/rd", {"spec": {"running": False}}))[0] == 200


async def test_files_of_a_template_are_checked(world: ProfileWorld) -> None:
    world.write("resource: {urls: ['https://a.example.com/*'], requireDigest: true}")
    for location, digest, status in (
        ("https://a.example.com/disk", "sha256:" + "a" * 64, 201),
        ("https://a.example.com/disk", "", 403),
        ("https://b.example.com/disk", "sha256:" + "a" * 64, 403),
    ):
        text = f"images: [{{location: '{location}', digest: '{digest}'}}]"
        created = machine("vm", annotations={names.TEMPLATE: text})
        assert (await world.call("POST", LIMA, created)).status == status


# -- files


def resource(**spec: str) -> Object:
    wanted = {"url": "https://a.example.com/f", "digest": "sha256:" + "a" * 64}
    return {"metadata": {"name": "f"}, "spec": {**wanted, **spec}}


async def test_sources_of_files_are_checked(world: ProfileWorld) -> None:
    world.write(
        "resource:\n  urls: ['https://a.example.com/*']\n"
        f"  digests: [{{url: 'https://a.example.com/only', digest: 'sha256:{'c' * 64}'}}]\n"
    )
    for spec in (
        {"url": "https://b.example.com/f"},
        {"url": "https://a.example.com/only"},
        {"checksumURL": "https://b.example.com/sums"},
    ):
        reply = await world.call("POST", RESOURCES, resource(**spec))
        assert (reply.status, str(world.path) in reply.message) == (403, True), reply.body
    await world.make(RESOURCES, resource())
    path = f"{RESOURCES}/f"
    assert (await world.patch(path, {"spec": {"url": "https://b.example.com/f"}}))[0] == 403
    assert (await world.patch(path, {"metadata": {"labels": {"a": "b"}}}))[0] == 200


@pytest.mark.parametrize(
    ("collection", "obj", "name", "value"),
    [
        pytest.param(RESOURCES, resource(), "digest", "sha256:" + "b" * 64, id="Resource"),
        pytest.param(
            CHECKOUTS,
            {"metadata": {"name": "f"}, "spec": {"resource": "f", "readonly": True}},
            "localPath", "/home/me/evil", id="Checkout",
        ),
    ],
)  # fmt: skip
async def test_status_cannot_claim_another_file(
    world: ProfileWorld, collection: str, obj: Object, name: str, value: str
) -> None:
    world.write("resource: {urls: ['https://a.example.com/*']}")
    await world.make(collection, obj)
    path, change = f"{collection}/f/status", {"status": {name: value}}
    for user in (ADMIN, SERVICE_ACCOUNT):
        status, message = await world.patch(path, change, user=user)
        assert status == 403
        assert f"status.{name} is written by the control plane only" in message
    assert (await world.patch(path, change, user=DAEMON))[0] == 200


# -- images


def request(**spec: Any) -> Object:
    return {"metadata": {"generateName": "r-"}, "spec": spec}


@pytest.mark.parametrize(
    ("plural", "spec", "status"),
    [
        ("imagepullrequests", {"repoTag": "alpine"}, 201),
        ("imagepullrequests", {"repoTag": "quay.io/a"}, 403),
        ("imagepullrequests", {"repoTag": "localhost/a"}, 403),
        ("containercreaterequests", {"image": "alpine:3", "state": "running"}, 201),
        ("containercreaterequests", {"image": "localhost/a", "state": "created"}, 201),
        ("containercreaterequests", {"image": "quay.io/a", "state": "created"}, 403),
        ("containercreaterequests", {"image": "sha256:" + "a" * 64, "state": "created"}, 403),
        ("containercreaterequests", {"image": "abc", "state": "created"}, 403),
        ("imagetagrequests", {"imageRef": "i", "repoTag": "localhost/a:1"}, 201),
        ("imagetagrequests", {"imageRef": "i", "repoTag": "alpine:mine"}, 403),
        ("imagebuildrequests", {"context": "/c", "tags": ["localhost/a"]}, 201),
        ("imagebuildrequests", {"context": "/c", "tags": ["localhost/a", "alpine"]}, 403),
        ("imagebuildrequests", {"context": "/c"}, 403),
    ],
)
async def test_images_of_requests_are_checked(
    world: ProfileWorld, plural: str, spec: Object, status: int
) -> None:
    world.write("image: {allowed: ['docker.io/library/*'], local: ['localhost/*']}")
    reply = await world.call("POST", f"{ENGINE}/{plural}", request(**spec))
    assert reply.status == status, reply.body
    if status == 201:
        name = reply.body["metadata"]["name"]
        world.write("image: {allowed: []}")  # a request that was accepted may end
        for path in (f"{ENGINE}/{plural}/{name}", f"{ENGINE}/{plural}/{name}/status"):
            assert (await world.patch(path, {"metadata": {"labels": {"a": "b"}}}))[0] == 200
        assert (await world.call("DELETE", f"{ENGINE}/{plural}/{name}")).status == 200


# -- the copy


async def test_copy_cannot_change(world: ProfileWorld) -> None:
    world.write(LOCKS)
    copy = {"metadata": {"name": "profile"}, "data": {"profile": LOCKS}}
    assert (await world.call("POST", COPY, copy)).status == 403
    assert (await world.call("POST", COPY, copy, user=DAEMON)).status == 201
    path = f"{COPY}/profile"
    assert (await world.patch(path, {"data": None}))[0] == 403
    assert (await world.call("PUT", path, copy)).status == 403
    assert (await world.call("DELETE", path)).status == 403
    assert (await world.call("DELETE", COPY)).status == 403
    assert (await world.call("GET", path)).body["data"] == {"profile": LOCKS}
