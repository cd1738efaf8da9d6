# SPDX-License-Identifier: Apache-2.0
"""The definitions of the project's kinds on the real server: served, defaulted, listed."""

import pytest
from tests.http.client import CRDS, Api
from tests.unit.kinds.paths import changed, path_of
from tests.unit.kinds.samples import NOW, SAMPLES

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.catalog import ALL, crds_of
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.kinds.hostinfo import HostInfo
from rdd.kinds.image import Image, ImagePullRequest
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM
from rdd.kinds.notary import Notary
from rdd.kinds.volume import Volume
from rdd.testing import Clock, Options, Server

STRICT = {"fieldValidation": "Strict"}
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
each_kind = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)


async def store(api: Api, kind: type[Kind], obj: Object) -> Object:
    """Create an object, write its status and return the served object."""
    created: Object = await api.post(path_of(kind), obj)
    if "status" not in obj:
        return created
    path = path_of(kind, obj["metadata"]["name"], "status")
    stored: Object = await api.patch(path, {"status": obj["status"]})
    return stored


@each_kind
async def test_definition_is_accepted_strictly_and_without_warnings(
    api: Api, kind: type[Kind]
) -> None:
    reply = await api.call("POST", CRDS, definition_of(kind), query=STRICT)
    assert (reply.status, reply.warnings) == (201, [])


@each_kind
async def test_definition_is_established_and_stored_unchanged(api: Api, kind: type[Kind]) -> None:
    crd = definition_of(kind)
    await api.install(crd)
    stored = await api.get(f"{CRDS}/{kind.crd_name}")
    # An upgrade compares specs: the server must not add or reformat anything.
    assert stored["spec"] == crd["spec"]
    assert stored["metadata"]["annotations"] == crd["metadata"]["annotations"]
    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


async def test_all_definitions_coexist(api: Api) -> None:
    await api.install(*crds_of("mock"))
    for kind in ALL:
        listed = await api.get(path_of(kind))
        assert (listed["kind"], listed["items"]) == (f"{kind.kind}List", [])


VERBS = ("build", "pull", "push", "scan", "tag")


async def test_discovery_shows_names_and_categories(api: Api) -> None:
    await api.install(*crds_of("containernamespace", "image"))
    found = await api.get(f"/apis/{Image.api_version}")
    resources = {r["name"]: r for r in found["resources"]}
    assert set(resources) == {
        *("containernamespaces", "images", "images/status"),
        *(f"image{verb}requests" for verb in VERBS),
        *(f"image{verb}requests/status" for verb in VERBS),
    }
    entry = resources["containernamespaces"]
    assert (entry["shortNames"], entry["categories"]) == (["cns"], ["all"])
    assert (entry["singularName"], entry["namespaced"]) == ("containernamespace", True)


@each_kind
async def test_sample_is_accepted_and_stored_completely(api: Api, kind: type[Kind]) -> None:
    await api.install(definition_of(kind))
    sample = SAMPLES[kind]
    reply = await api.call("POST", path_of(kind), sample.raw, query=STRICT)
    assert (reply.status, reply.warnings) == (201, [])
    stored = await api.get(path_of(kind, sample.metadata.name))
    if kind is not ContainerNamespace:
        path = path_of(kind, sample.metadata.name, "status")
        stored = await api.patch(path, {"status": sample.raw["status"]}, query=STRICT)
        assert stored["status"] == sample.raw["status"]
    for name, value in sample.raw.get("spec", {}).items():
        assert stored["spec"][name] == value


async def test_status_is_a_subresource_of_all_kinds_but_one(api: Api) -> None:
    await api.install(*crds_of("mock"))
    for kind in ALL:
        sample = SAMPLES[kind]
        created = await api.post(path_of(kind), sample.raw)
        assert "status" not in created
        path = path_of(kind, sample.metadata.name, "status")
        reply = await api.call("GET", path)
        assert reply.status == (404 if kind is ContainerNamespace else 200)


async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    await api.install(*crds_of("limavm", "containernamespace"))
    vm = await store(api, LimaVM, SAMPLES[LimaVM].raw)
    assert vm["metadata"]["generation"] == 1
    vm = await api.patch(path_of(LimaVM, "one"), {"spec": {"running": True}})
    assert vm["metadata"]["generation"] == 2
    # Without a status subresource, every change except of metadata counts.
    await api.post(path_of(ContainerNamespace), SAMPLES[ContainerNamespace].raw)
    path = path_of(ContainerNamespace, "one")
    space = await api.patch(path, {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}})
    assert (space["metadata"]["generation"], "spec" in space) == (1, False)


async def test_unknown_fields_are_pruned(api: Api) -> None:
    await api.install(*crds_of("container", "app"))
    obj = changed(SAMPLES[Container].raw, ("spec", "surprise"), 1)
    reply = await api.call("POST", path_of(Container), obj)
    assert reply.warnings == ['unknown field "spec.surprise"']
    assert reply.json()["spec"] == {}
    status = await api.refused(
        400, "POST", path_of(App), changed(SAMPLES[App].raw, ("spec", "cpus"), 1), query=STRICT
    )
    assert 'strict decoding error: unknown field "spec.cpus"' in status["message"]


DEFAULTS = {
    "namespace": "default",
    "containerEngine": {"name": "moby"},
    "application": {"updates": {"enabled": True}},
}


@pytest.mark.parametrize(
    ("spec", "result"),
    [
        pytest.param({}, {}, id="nothing but running"),
        pytest.param({"containerEngine": {}}, {}, id="an engine without name"),
        pytest.param({"containerEngine": None}, {}, id="no engine"),
        pytest.param({"application": {}}, {}, id="empty application"),
        pytest.param({"application": {"updates": {}}}, {}, id="empty updates"),
        pytest.param(
            {"application": {"updates": {"enabled": False}}},
            {"application": {"updates": {"enabled": False}}},
            id="updates switched off",
        ),
        pytest.param(
            {"containerEngine": {"name": "containerd"}, "namespace": "rancher-desktop"},
            {"containerEngine": {"name": "containerd"}, "namespace": "rancher-desktop"},
            id="other values",
        ),
        pytest.param({"virtualMachine": {}}, {"virtualMachine": {}}, id="no default machine"),
    ],
)
async def test_defaults_of_an_app(api: Api, spec: Object, result: Object) -> None:
    await api.install(definition_of(App))
    obj = {**SAMPLES[App].raw, "spec": {"running": False, **spec}}
    created = await api.post(path_of(App), obj)
    assert created["spec"] == {"running": False, **DEFAULTS, **result}


async def test_app_without_spec_gets_no_defaults(api: Api) -> None:
    await api.install(definition_of(App))
    obj = {"apiVersion": App.api_version, "kind": "App", "metadata": {"name": "app"}}
    assert "spec" not in await api.post(path_of(App), obj)


async def test_other_defaults(api: Api) -> None:
    await api.install(*crds_of("limavm", "container", "demo"))
    vm = {**SAMPLES[LimaVM].raw, "spec": {"templateRef": {"name": "rd"}}}
    created = await api.post(path_of(LimaVM), vm)
    assert created["spec"] == {"running": False, "templateRef": {"name": "rd"}}
    request = {**SAMPLES[ContainerCreateRequest].raw, "spec": {"image": "busybox"}}
    created = await api.post(path_of(ContainerCreateRequest), request)
    assert created["spec"] == {"image": "busybox", "state": "running"}
    demo = {**SAMPLES[Demo].raw, "spec": {}}
    assert (await api.post(path_of(Demo), demo))["spec"] == {"namespace": "default"}
    await api.post(path_of(Container), SAMPLES[Container].raw)
    given = {"name": "a", "namespace": "b", "path": "c", "image": "d"}
    patched = await api.patch(path_of(Container, "one", "status"), {"status": given})
    assert patched["status"] == {**given, "status": "unknown"}


@pytest.mark.parametrize(
    ("kind", "columns", "cells"),
    [
        pytest.param(
            App,
            [
                *("Name", "Running", "Settled", "Engine", "Kubernetes"),
                *("Age", "Type", "Message", "Paused"),
            ],
            ["app", "True", None, "moby", None, "10d", None, None, None],
            id="App",
        ),
        pytest.param(
            LimaVM,
            ["Name", "Running", "State", "Starts", "Age", "Message", "Paused"],
            ["one", False, "Started", 1, "10d", "It is up.", None],
            id="LimaVM",
        ),
        pytest.param(
            Container,
            [
                *("Name", "Running", "Container", "Image", "State"),
                *("Health", "Ports", "Created", "Image-ID", "Namespace"),
            ],
            ["one", "True", "web", None, "running", None, None, "10d", "busybox", "moby"],
            id="Container",
        ),
        pytest.param(ContainerNamespace, ["Name", "Age"], ["one", "10d"], id="ContainerNamespace"),
        pytest.param(
            Image,
            ["Name", "Tag", "Created", "Size", "Readable-Size", "Image-ID", "Platform"],
            ["one", "busybox:latest", "10d", 2_000_000_000, None, "sha256:1234", "amd64"],
            id="Image",
        ),
        pytest.param(
            Volume,
            ["Name", "Driver", "Volume", "Created", "Mountpoint"],
            ["one", "local", "data", "10d", "/var/lib/docker/volumes/data/_data"],
            id="Volume",
        ),
        pytest.param(Notary, ["Name", "Age"], ["one", "10d"], id="Notary"),
        pytest.param(HostInfo, ["Name", "CPUs", "Memory"], ["system", 8, "16Gi"], id="HostInfo"),
    ],
)
async def test_table_shows_the_declared_columns(
    kind: type[Kind], columns: list[str], cells: list[object]
) -> None:
    clock = Clock(timestamps.parse(NOW)[0], frozen=True)
    async with Server(Options(clock=clock)) as server:
        api = Api(server)
        await api.install(definition_of(kind))
        await store(api, kind, SAMPLES[kind].raw)
        clock.advance(10 * 24 * 3600)
        shown = await api.get(path_of(kind), headers=TABLE)
    assert [c["name"] for c in shown["columnDefinitions"]] == columns
    assert [row["cells"] for row in shown["rows"]] == [cells]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        pytest.param(kind, path[1:], id=f"{kind.kind} {path}")
        for kind in (Container, ContainerCreateRequest, Image, ImagePullRequest, Volume)
        for path in kind.presentation.selectable
    ],
)
async def test_objects_are_selected_by_declared_fields(
    api: Api, kind: type[Kind], field: str
) -> None:
    await api.install(definition_of(kind))
    sample = SAMPLES[kind].raw
    part, member = field.split(".")
    other = changed(sample, (part, member), "other")
    other["metadata"] = {**other["metadata"], "name": "two"}
    await store(api, kind, sample)
    await store(api, kind, other)
    found = sample[part][member]
    path = path_of(kind)
    assert await api.names(path, query={"fieldSelector": f"{field}={found}"}) == ["one"]
    assert await api.names(path, query={"fieldSelector": f"{field}!={found}"}) == ["two"]
    assert await api.names(path, query={"fieldSelector": f"{field}=nowhere"}) == []


async def test_rejects_selectors_of_other_fields(api: Api) -> None:
    await api.install(definition_of(Volume))
    query = {"fieldSelector": "status.driver=local"}
    status = await api.refused(400, "GET", path_of(Volume), query=query)
    assert status["message"] == "field label not supported: status.driver"
