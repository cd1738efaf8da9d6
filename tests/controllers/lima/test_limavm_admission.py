# SPDX-License-Identifier: Apache-2.0
"""Admission of LimaVMs and their templates; a rejected request leaves nothing behind."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.controller_world import eventually, gone
from tests.controllers.lima.limavm_world import (
    LIMAVMS,
    TEMPLATE,
    WITH_PARAM,
    FakeMachines,
    VMWorld,
    limavm,
    reported,
)
from tests.runtime.runtime_world import open_world

from rdd.api import errors, names
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.controllers.lima.limavm.templates import with_params
from rdd.controllers.lima.limavm.uniqueness import SETTLE_S, NameReservations
from rdd.runtime import ObjectKey, owned_by
from rdd.vm.template import TemplateError

pytestmark = pytest.mark.looptime

DENIED = 'admission webhook "limavm-{}.lima.rancherdesktop.io" denied the request: '
LABEL = {names.TEMPLATE_LABEL: "true"}


@pytest.fixture
async def vms(tmp_path: Path) -> AsyncIterator[VMWorld]:
    async with open_world() as world:
        made = VMWorld(world, FakeMachines(tmp_path / "lima"))
        async with made.managed():
            yield made


async def rejection(work: Any, error: type[errors.ApiError] = errors.Forbidden) -> str:
    with pytest.raises(error) as rejected:
        await work
    return rejected.value.message


# -- templates


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", '"template" data cannot be empty', id="empty"),
        pytest.param("  \n", '"template" data cannot be empty', id="blank"),
        pytest.param(
            "cpus: [",
            "failed to parse template: line 2: did not find expected node content",
            id="no YAML",
        ),
        pytest.param(
            "- a\n",
            "failed to parse template: line 1: a template is a mapping of keys to values, "
            "not a list",
            id="no mapping",
        ),
        pytest.param(
            "vmType: host\ncpu: 4\nmemory: lots\nos: BeOS\n",
            'failed to validate template: line 2: cpu: unknown key, did you mean "cpus"?; '
            'line 3: memory: "lots" is not a size such as "4GiB"; '
            'field `os` must be "Linux", "Darwin" or "FreeBSD"; got `BeOS`',
            id="all problems at once",
        ),
    ],
)
async def test_rejects_invalid_template(vms: VMWorld, text: str, why: str) -> None:
    await vms.source(text)
    assert await rejection(vms.create()) == DENIED.format("defaulter") + why
    assert not (await vms.client.list(LIMAVMS)).items
    metadata = {"name": "labelled", "namespace": "default", "labels": LABEL}
    labelled = {"metadata": metadata, "data": {"template": text}}
    denied = DENIED.format("configmap-validator")
    assert await rejection(vms.client.create(CONFIG_MAPS, labelled)) == denied + why


async def test_image_is_required_except_for_the_host_driver(vms: VMWorld) -> None:
    await vms.source("vmType: vz\n")
    assert "images" in await rejection(vms.create())
    await vms.source("message: no image\n", name="none")
    await vms.create(templateRef={"name": "none"})


async def test_driver_selection_does_not_block_the_server(
    vms: VMWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def choose(*_: object, **__: object) -> str:
        threads.append(threading.current_thread())
        return "qemu"

    monkeypatch.setattr("rdd.vm.drivers.selection.driver_for", choose)
    await vms.source("images: [{location: /image}]\nprovision: [{mode: yq}]\n")
    assert "provision[0].mode" in await rejection(vms.create())
    assert threads
    assert threading.main_thread() not in threads


async def test_rejects_unknown_driver(vms: VMWorld) -> None:
    await vms.source()
    wanted = limavm("vm", running=False)
    wanted["metadata"]["annotations"] = {names.DRIVER: "xen"}
    assert await rejection(vms.client.create(LIMAVMS, wanted)) == (
        DENIED.format("defaulter")
        + f'{names.DRIVER} "xen" is not a driver; supported are host, lima, qemu'
    )


async def test_applies_the_rules_of_the_requested_driver(vms: VMWorld) -> None:
    # Automatic selection would choose the driver host, which needs no image.
    await vms.source("message: no image\n")
    wanted = limavm("vm", running=False)
    wanted["metadata"]["annotations"] = {names.DRIVER: "qemu"}
    assert "images" in await rejection(vms.client.create(LIMAVMS, wanted))


async def test_rejects_source_without_template(vms: VMWorld) -> None:
    metadata = {"name": "source", "namespace": "default"}
    await vms.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"other": "x"}})
    assert await rejection(vms.create()) == (
        DENIED.format("defaulter") + '"template" data cannot be empty'
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(None, "spec: Required value", id="no spec"),
        pytest.param({"running": True}, "spec.templateRef: Required value", id="no reference"),
        pytest.param({"templateRef": {}}, "spec.templateRef.name: Required value", id="no name"),
        pytest.param(
            {"templateRef": {"name": ""}},
            DENIED.format("defaulter") + "spec.templateRef.name must not be empty",
            id="an empty name",
        ),
    ],
)
async def test_rejects_missing_template_reference(
    vms: VMWorld, spec: dict[str, Any] | None, why: str
) -> None:
    await vms.source()  # must not be used as a default
    body = limavm("vm")
    del body["spec"]
    if spec is not None:
        body["spec"] = spec
    assert why in await rejection(vms.client.create(LIMAVMS, body), errors.ApiError)


async def test_missing_source_is_not_found(vms: VMWorld) -> None:
    message = await rejection(vms.create(), errors.NotFound)
    assert message == DENIED.format("defaulter") + 'configmaps "source" not found'


async def test_source_defaults_to_the_namespace_of_the_limavm(vms: VMWorld) -> None:
    await vms.source()
    await vms.namespace("other")
    made = limavm("vm", "other", templateRef={"name": "source"})
    assert "not found" in await rejection(vms.client.create(LIMAVMS, made), errors.NotFound)


async def test_rejects_invalid_template_of_an_instance(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.until_reason("Stopped")
    assert "failed to validate template" in await rejection(vms.edit("cpu: 4\n"))
    cleared = vms.client.patch(CONFIG_MAPS, "vm-template", {"data": None}, namespace="default")
    assert '"template" data cannot be empty' in await rejection(cleared)
    assert (await vms.copy())["data"] == {"template": TEMPLATE}


async def test_template_of_an_instance_is_protected(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.until_reason("Stopped")
    denied = DENIED.format("configmap-validator")
    label_gone = vms.client.patch(
        CONFIG_MAPS,
        "vm-template",
        {"metadata": {"labels": {names.TEMPLATE_LABEL: None}}},
        namespace="default",
    )
    assert await rejection(label_gone) == (
        denied + f"cannot remove {names.TEMPLATE_LABEL} label: resource is owned"
    )
    for dry_run in (True, False):
        deletion = vms.client.delete(
            CONFIG_MAPS, "vm-template", namespace="default", dry_run=dry_run
        )
        assert await rejection(deletion) == (
            denied
            + 'cannot delete "vm-template": owned by LimaVM; delete the LimaVM resource instead'
        )


async def test_labelled_configmap_without_owner_can_be_changed(vms: VMWorld) -> None:
    await vms.source(labels=LABEL)
    patch = {"metadata": {"labels": {names.TEMPLATE_LABEL: None}}}
    await vms.client.patch(CONFIG_MAPS, "source", patch, namespace="default")
    await vms.client.delete(CONFIG_MAPS, "source", namespace="default")


async def test_adding_the_label_validates_the_template(vms: VMWorld) -> None:
    await vms.source("cpus: many\n")
    labelled = {"metadata": {"labels": LABEL}}
    why = await rejection(vms.client.patch(CONFIG_MAPS, "source", labelled, namespace="default"))
    assert 'failed to validate template: line 1: cpus: "many" is not a whole number' in why
    kept = await vms.client.get(CONFIG_MAPS, "source", namespace="default")
    assert "labels" not in kept["metadata"]


# -- names


async def test_names_are_unique_across_namespaces(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.namespace("other")
    why = (
        'LimaVM name "vm" is already used in namespace "default"; '
        "LimaVM names must be unique across all namespaces"
    )
    for namespace in ("other", "default"):
        assert await rejection(vms.create(namespace=namespace)) == DENIED.format("defaulter") + why


async def test_one_of_twenty_concurrent_creations_succeeds(vms: VMWorld) -> None:
    await vms.source()
    names = [f"n{i}" for i in range(20)]
    for name in names:
        await vms.namespace(name)
    made = await asyncio.gather(
        *(vms.create(namespace=name) for name in names), return_exceptions=True
    )
    winners = [vm for vm in made if isinstance(vm, dict)]
    losers = [error for error in made if isinstance(error, errors.Forbidden)]
    assert (len(winners), len(losers)) == (1, 19)
    namespace = winners[0]["metadata"]["namespace"]
    for error in losers:
        assert error.message.endswith(
            f'LimaVM name "vm" is already used in namespace "{namespace}"; '
            "LimaVM names must be unique across all namespaces"
        )
    assert len((await vms.client.list(LIMAVMS)).items) == 1


async def test_reservation_of_a_failed_creation_expires(vms: VMWorld) -> None:
    reservations = NameReservations()
    assert await reservations.reserve(vms.client, ObjectKey("one", "vm")) is None
    assert await reservations.reserve(vms.client, ObjectKey("one", "vm")) is None
    began = asyncio.get_running_loop().time()
    assert await reservations.reserve(vms.client, ObjectKey("two", "vm")) is None
    assert asyncio.get_running_loop().time() - began == pytest.approx(SETTLE_S, abs=0.1)


async def test_dry_run_reserves_no_name(vms: VMWorld) -> None:
    await vms.source()
    await vms.namespace("other")
    made = await vms.client.create(LIMAVMS, limavm("vm", "other"), dry_run=True)
    assert made["metadata"]["finalizers"]
    began = asyncio.get_running_loop().time()
    await vms.create()
    assert asyncio.get_running_loop().time() - began < SETTLE_S
    assert not (await vms.client.list(LEASES, namespace="rdd-system")).items


async def test_rejects_invalid_name(vms: VMWorld) -> None:
    await vms.source()
    assert await rejection(vms.create("a--b")) == (
        DENIED.format("defaulter")
        + 'invalid name "a--b": allowed are letters and digits, separated by single ".", "_" or '
        '"-", at most 76 characters'
    )


async def test_older_of_two_namesakes_owns_the_machine(vms: VMWorld) -> None:
    """Two namesakes can exist if the controller moves to another process between admissions."""
    await vms.source()
    await vms.namespace("other")
    await vms.create(running=True)
    await vms.until_reason("Started")
    await asyncio.sleep(2)
    config = "limavm-defaulter", "limavm-validator"
    kinds = {"limavm-defaulter": "mutating", "limavm-validator": "validating"}
    for name in config:
        path = f"/apis/admissionregistration.k8s.io/v1/{kinds[name]}webhookconfigurations/{name}"
        await vms.client.request("DELETE", path)
    await vms.client.create(LIMAVMS, limavm("vm", "other", running=True))
    async with asyncio.timeout(60):
        while True:
            late = await vms.client.get(LIMAVMS, "vm", namespace="other")
            if reported(late, "Created")[1]:
                break
            await asyncio.sleep(0.1)
    assert reported(late, "Created") == (
        "False",
        "CreateFailed",
        'LimaVM name "vm" is already used in namespace "default"; '
        "LimaVM names must be unique across all namespaces",
    )
    await vms.client.delete(LIMAVMS, "vm", namespace="other")
    await gone(vms.world, LIMAVMS, "vm", namespace="other")
    assert reported(await vms.get())[1] == "Started"
    assert vms.machines.home.directory("vm").exists()


# -- the copy of the template


async def test_foreign_configmap_is_not_overwritten(vms: VMWorld) -> None:
    await vms.source()
    await vms.source("mine", name="vm-template")
    message = await rejection(vms.create(), errors.AlreadyExists)
    assert message == DENIED.format("defaulter") + 'configmaps "vm-template" already exists'
    assert (await vms.copy())["data"] == {"template": "mine"}


async def test_orphaned_copy_is_adopted(vms: VMWorld) -> None:
    await vms.source()
    await vms.source(
        "message: old\n",
        name="vm-template",
        labels=LABEL,
        finalizers=[owned_by("LimaVM")],
    )
    await vms.create()
    await vms.until_reason("Stopped")
    copy = await vms.copy()
    assert copy["data"] == {"template": TEMPLATE}
    assert copy["metadata"]["ownerReferences"][0]["name"] == "vm"


async def test_copy_of_a_deleted_limavm_is_deleted(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.until_reason("Stopped")
    await vms.patch({"metadata": {"finalizers": None}})
    await vms.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(vms.world, CONFIG_MAPS, "vm-template")


async def test_copy_deleted_by_force_is_recreated(vms: VMWorld) -> None:
    await vms.source()
    await vms.create(running=True)
    await vms.until_reason("Started")
    before = await vms.edit("vmType: host\nmessage: mine\n")
    await vms.until(lambda vm: vm["status"]["restartCount"] == 2)
    await vms.client.delete(CONFIG_MAPS, "source", namespace="default")
    no_finalizer = {"metadata": {"finalizers": None}}
    await vms.client.patch(CONFIG_MAPS, "vm-template", no_finalizer, namespace="default")
    await vms.client.delete(CONFIG_MAPS, "vm-template", namespace="default")
    copy = await eventually(vms.world, CONFIG_MAPS, "vm-template", lambda found: True)
    assert copy["data"] == before["data"]
    version = copy["metadata"]["resourceVersion"]
    vm = await vms.until(lambda vm: vm["status"]["observedTemplateResourceVersion"] == version)
    assert (reported(vm)[1], vm["status"]["restartCount"]) == ("Started", 2)


async def test_large_template_is_read_from_its_source(vms: VMWorld) -> None:
    text = TEMPLATE + "".join(f"# {i:>70}\n" for i in range(4000))
    await vms.source(text)
    made = await vms.create()
    assert "annotations" not in made["metadata"]
    await vms.until_reason("Stopped")
    assert (await vms.copy())["data"] == {"template": text}


# -- params


async def test_rejects_undeclared_params(vms: VMWorld) -> None:
    why = (
        "failed to validate template: spec.params.COLOUR: the template has no such param; "
        "declared: GREETING"
    )
    await vms.source(WITH_PARAM)
    assert await rejection(vms.create(params={"COLOUR": "red"})) == DENIED.format("defaulter") + why
    await vms.create(params={"GREETING": "hi"})
    changed = vms.patch({"spec": {"params": {"COLOUR": "red"}}})
    assert await rejection(changed) == DENIED.format("validator") + why
    await vms.until_reason("Stopped")
    changed = vms.patch({"spec": {"params": {"COLOUR": "red"}}})
    assert await rejection(changed) == DENIED.format("validator") + why


async def test_rejects_template_without_params_in_use(vms: VMWorld) -> None:
    await vms.source(WITH_PARAM)
    await vms.create(params={"GREETING": "hi"})
    await vms.until_reason("Stopped")
    message = await rejection(vms.edit(TEMPLATE))
    assert message.endswith("spec.params.GREETING: the template has no such param; declared: none")
    await vms.patch({"spec": {"params": None}})
    await vms.edit(TEMPLATE)


def test_template_without_params_is_unchanged() -> None:
    odd = "# a comment\nvmType:   host\n"
    assert with_params(odd, {}) == odd
    with pytest.raises(TemplateError):
        with_params(odd, {"X": "1"})


# -- deletion


async def test_limavm_of_an_app_cannot_be_deleted(vms: VMWorld) -> None:
    await vms.source()
    made = limavm("vm")
    made["metadata"]["finalizers"] = [owned_by("App")]
    await vms.client.create(LIMAVMS, made)
    for dry_run in (True, False):
        deletion = vms.client.delete(LIMAVMS, "vm", namespace="default", dry_run=dry_run)
        assert await rejection(deletion) == (
            DENIED.format("validator")
            + 'cannot delete "vm": owned by App; delete the App resource instead'
        )
