# SPDX-License-Identifier: Apache-2.0
"""An instance created by an older version is upgraded to the current definitions."""

import copy

import pytest
from tests.http.client import CRDS, Api
from tests.unit.kinds.paths import path_of
from tests.unit.kinds.samples import SAMPLES

from rdd.api.types import Object
from rdd.kinds.app import App
from rdd.kinds.container import Container, ContainerCreateRequest
from rdd.kinds.crd import definition_of
from rdd.kinds.image import Image
from rdd.kinds.kind import Kind
from rdd.kinds.limavm import LimaVM


def properties(crd: Object, *path: str) -> Object:
    """Return the members declared at a path of a definition."""
    schema: Object = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        schema = schema["properties"][part]
    found: Object = schema["properties"]
    return found


async def upgrade(api: Api, kind: type[Kind]) -> Object:
    """Update the installed definition, as a manager does."""
    stored = await api.get(f"{CRDS}/{kind.crd_name}")
    body = {**stored, "spec": definition_of(kind)["spec"]}
    updated: Object = await api.put(
        f"{CRDS}/{kind.crd_name}", body, query={"fieldValidation": "Strict"}
    )
    await api.server.running.custom.settled()
    return updated


async def test_app_of_an_older_version_gets_new_fields(api: Api) -> None:
    old = definition_of(App)
    del properties(old, "spec", "virtualMachine")["type"]
    del properties(old, "spec")["application"]
    del properties(old, "status")["kubernetesPort"]
    await api.install(old)
    await api.post(path_of(App), SAMPLES[App].raw)
    path = path_of(App, "app")
    before = await api.patch(path, {"spec": {"virtualMachine": {"cpus": 2, "type": "qemu"}}})
    assert before["spec"]["virtualMachine"] == {"cpus": 2}

    assert (await upgrade(api, App))["spec"] == definition_of(App)["spec"]

    read = App.of(await api.get(path))
    assert read.metadata.uid == before["metadata"]["uid"]
    assert read.spec.raw == {**before["spec"], "application": {"updates": {"enabled": True}}}
    patched = App.of(await api.patch(path, {"spec": {"virtualMachine": {"type": "qemu"}}}))
    assert (patched.spec.virtual_machine.type, patched.spec.virtual_machine.cpus) == ("qemu", 2)
    assert patched.metadata.generation == 3
    status = await api.refused(
        *(422, "PATCH", path, {"spec": {"namespace": "other"}}),
        content_type="application/merge-patch+json",
    )
    assert "spec.namespace is immutable" in status["message"]


async def test_object_that_violates_a_new_rule_can_be_changed_elsewhere(api: Api) -> None:
    old = definition_of(LimaVM)
    running = properties(old, "spec")["running"]
    running.clear()
    running.update({"type": "boolean"})
    template = properties(old, "spec")["templateRef"]
    template["required"] = []
    await api.install(old)
    obj = copy.deepcopy(SAMPLES[LimaVM].raw)
    obj["spec"] = {"templateRef": {}, "running": True}
    await api.post(path_of(LimaVM), obj)

    await upgrade(api, LimaVM)

    path = path_of(LimaVM, "one")
    assert (await api.get(path))["spec"] == obj["spec"]
    annotated = {"metadata": {"annotations": {"a": "b"}}}
    assert (await api.patch(path, annotated))["metadata"]["annotations"] == {"a": "b"}
    assert (await api.patch(path, {"spec": {"running": False}}))["spec"]["running"] is False


async def test_optional_status_name_accepts_old_and_new_requests(api: Api) -> None:
    old = definition_of(ContainerCreateRequest)
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"]["required"] = ["name"]
    await api.install(old)
    await api.post(path_of(ContainerCreateRequest), SAMPLES[ContainerCreateRequest].raw)
    path = path_of(ContainerCreateRequest, "one", "status")
    failed = {"status": {"conditions": SAMPLES[Container].raw["status"]["conditions"]}}
    kind = "application/merge-patch+json"
    await api.refused(422, "PATCH", path, failed, content_type=kind)

    await upgrade(api, ContainerCreateRequest)

    assert "name" not in (await api.patch(path, failed))["status"]


async def test_new_columns_and_selectable_fields_work_for_old_objects(api: Api) -> None:
    old = definition_of(Image)
    del old["spec"]["versions"][0]["additionalPrinterColumns"]
    del old["spec"]["versions"][0]["selectableFields"]
    del old["spec"]["names"]["categories"]
    await api.install(old)
    await api.post(path_of(Image), SAMPLES[Image].raw)
    await api.patch(path_of(Image, "one", "status"), {"status": SAMPLES[Image].raw["status"]})

    await upgrade(api, Image)

    table = await api.get(
        path_of(Image), headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    )
    shown = [c["name"] for c in table["columnDefinitions"]]
    assert shown[:5] == ["Name", "Tag", "Created", "Size", "Readable-Size"]
    query = {"fieldSelector": "status.repoTag=busybox:latest"}
    assert await api.names(path_of(Image), query=query) == ["one"]


@pytest.mark.parametrize("kind", [App, Image], ids=lambda kind: kind.kind)
async def test_definition_that_is_up_to_date_is_not_changed_by_an_upgrade(
    api: Api, kind: type[Kind]
) -> None:
    await api.install(definition_of(kind))
    before = (await api.get(f"{CRDS}/{kind.crd_name}"))["metadata"]
    after = (await upgrade(api, kind))["metadata"]
    assert after["resourceVersion"] == before["resourceVersion"]
    assert after["generation"] == before["generation"] == 1
