# SPDX-License-Identifier: Apache-2.0
"""What is refused about LimaVMs and their templates, and that a refusal leaves nothing behind."""

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
    said,
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


async def refusal(work: Any, error: type[errors.ApiError] = errors.Forbidden) -> str:
    with pytest.raises(error) as refused:
        await work
    return refused.value.message


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
            'os: "BeOS" must be "Linux", "Darwin" or "FreeBSD"',
            id="all problems at once",
        ),
    ],
)
async def test_a_template_that_does_not_work_is_refused(vms: VMWorld, text: str, why: str) -> None:
    await vms.source(text)
    assert await refusal(vms.create()) == DENIED.format("defaulter") + why
    assert not (await vms.client.list(LIMAVMS)).items
    metadata = {"name": "labelled", "namespace": "default", "labels": LABEL}
    labelled = {"metadata": metadata, "data": {"template": text}}
    denied = DENIED.format("configmap-validator")
    assert await refusal(vms.client.create(CONFIG_MAPS, labelled)) == denied + why


async def test_a_virtual_machine_needs_an_image_and_the_host_does_not(vms: VMWorld) -> None:
    await vms.source("vmType: vz\n")
    assert "images" in await refusal(vms.create())
    await vms.source("message: no image\n", name="none")
    await vms.create(templateRef={"name": "none"})


async def test_programs_are_asked_without_holding_up_the_server(
    vms: VMWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[threading.Thread] = []

    def choose(*_: object, **__: object) -> str:
        asked.append(threading.current_thread())
        return "qemu"

    monkeypatch.setattr("rdd.vm.drivers.selection.driver_for", choose)
    await vms.source("images: [{location: /image}]\nprovision: [{mode: yq}]\n")
    assert "provision[0].mode" in await refusal(vms.create())
    assert asked
    assert threading.main_thread() not in asked


async def test_a_driver_that_does_not_exist_is_refused(vms: VMWorld) -> None:
    await vms.source()
    wanted = limavm("vm", running=False)
    wanted["metadata"]["annotations"] = {names.DRIVER: "xen"}
    assert await refusal(vms.client.create(LIMAVMS, wanted)) == (
        DENIED.format("defaulter")
        + f'{names.DRIVER} "xen" is no driver; known are host, lima, qemu'
    )


async def test_a_driver_that_is_asked_for_has_its_rules(vms: VMWorld) -> None:
    # Without an image it could only be the driver host, which needs none.
    await vms.source("message: no image\n")
    wanted = limavm("vm", running=False)
    wanted["metadata"]["annotations"] = {names.DRIVER: "qemu"}
    assert "images" in await refusal(vms.client.create(LIMAVMS, wanted))


async def test_a_source_without_a_template_is_refused(vms: VMWorld) -> None:
    metadata = {"name": "source", "namespace": "default"}
    await vms.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"other": "x"}})
    assert await refusal(vms.create()) == (
        DENIED.format("defaulter") + 'template ConfigMap must have a "template" data entry'
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
async def test_a_limavm_without_a_template_is_told_what_it_needs(
    vms: VMWorld, spec: dict[str, Any] | None, why: str
) -> None:
    await vms.source()  # which must not be taken for the one that is not named
    body = limavm("vm")
    del body["spec"]
    if spec is not None:
        body["spec"] = spec
    assert why in await refusal(vms.client.create(LIMAVMS, body), errors.ApiError)


async def test_a_source_that_does_not_exist_is_not_found(vms: VMWorld) -> None:
    message = await refusal(vms.create(), errors.NotFound)
    assert message == DENIED.format("defaulter") + 'configmaps "source" not found'


async def test_the_source_is_looked_for_in_the_namespace_of_the_limavm(vms: VMWorld) -> None:
    await vms.source()
    await vms.namespace("other")
    made = limavm("vm", "other", templateRef={"name": "source"})
    assert "not found" in await refusal(vms.client.create(LIMAVMS, made), errors.NotFound)


async def test_a_broken_template_cannot_be_put_into_an_instance(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.until_reason("Stopped")
    assert "failed to validate template" in await refusal(vms.edit("cpu: 4\n"))
    cleared = vms.client.patch(CONFIG_MAPS, "vm-template", {"data": None}, namespace="default")
    assert 'must have a "template" data entry' in await refusal(cleared)
    assert (await vms.copy())["data"] == {"template": TEMPLATE}


async def test_the_template_of_an_instance_is_guarded(vms: VMWorld) -> None:
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
    assert await refusal(label_gone) == (
        denied + f"cannot remove {names.TEMPLATE_LABEL} label: resource is owned"
    )
    for dry_run in (True, False):
        deletion = vms.client.delete(
            CONFIG_MAPS, "vm-template", namespace="default", dry_run=dry_run
        )
        assert await refusal(deletion) == (
            denied
            + 'cannot delete "vm-template": owned by LimaVM; delete the LimaVM resource instead'
        )


async def test_a_labelled_configmap_that_nobody_owns_is_free(vms: VMWorld) -> None:
    await vms.source(labels=LABEL)
    patch = {"metadata": {"labels": {names.TEMPLATE_LABEL: None}}}
    await vms.client.patch(CONFIG_MAPS, "source", patch, namespace="default")
    await vms.client.delete(CONFIG_MAPS, "source", namespace="default")


async def test_what_becomes_a_template_by_its_label_is_checked(vms: VMWorld) -> None:
    await vms.source("cpus: many\n")
    labelled = {"metadata": {"labels": LABEL}}
    why = await refusal(vms.client.patch(CONFIG_MAPS, "source", labelled, namespace="default"))
    assert 'failed to validate template: line 1: cpus: "many" is not a whole number' in why
    kept = await vms.client.get(CONFIG_MAPS, "source", namespace="default")
    assert "labels" not in kept["metadata"]


# -- names


async def test_a_name_is_used_once_in_all_namespaces(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.namespace("other")
    why = (
        'LimaVM name "vm" is already used in namespace "default"; '
        "LimaVM names must be unique across all namespaces"
    )
    for namespace in ("other", "default"):
        assert await refusal(vms.create(namespace=namespace)) == DENIED.format("defaulter") + why


async def test_one_of_twenty_creations_at_once_succeeds(vms: VMWorld) -> None:
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


async def test_a_creation_that_fails_after_admission_blocks_nobody_for_long(vms: VMWorld) -> None:
    reservations = NameReservations()
    assert await reservations.reserve(vms.client, ObjectKey("one", "vm")) is None
    assert await reservations.reserve(vms.client, ObjectKey("one", "vm")) is None
    began = asyncio.get_running_loop().time()
    assert await reservations.reserve(vms.client, ObjectKey("two", "vm")) is None
    assert asyncio.get_running_loop().time() - began == pytest.approx(SETTLE_S, abs=0.1)


async def test_a_dry_run_holds_no_name_and_leaves_nothing(vms: VMWorld) -> None:
    await vms.source()
    await vms.namespace("other")
    made = await vms.client.create(LIMAVMS, limavm("vm", "other"), dry_run=True)
    assert made["metadata"]["finalizers"]
    began = asyncio.get_running_loop().time()
    await vms.create()
    assert asyncio.get_running_loop().time() - began < SETTLE_S
    assert not (await vms.client.list(LEASES, namespace="rdd-system")).items


async def test_a_name_that_no_machine_can_have_is_refused(vms: VMWorld) -> None:
    await vms.source()
    assert await refusal(vms.create("a--b")) == (
        DENIED.format("defaulter")
        + 'invalid name "a--b": allowed are letters and digits, separated by single ".", "_" or '
        '"-", at most 76 characters'
    )


async def test_of_two_that_slipped_through_the_older_one_is_the_machine(vms: VMWorld) -> None:
    """As if the controller had moved to another process between two admissions."""
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
            if said(late, "Created")[1]:
                break
            await asyncio.sleep(0.1)
    assert said(late, "Created") == (
        "False",
        "CreateFailed",
        'LimaVM name "vm" is already used in namespace "default"; '
        "LimaVM names must be unique across all namespaces",
    )
    await vms.client.delete(LIMAVMS, "vm", namespace="other")
    await gone(vms.world, LIMAVMS, "vm", namespace="other")
    assert said(await vms.get())[1] == "Started"
    assert vms.machines.home.directory("vm").exists()


# -- the copy of the template


async def test_somebody_elses_configmap_is_not_overwritten(vms: VMWorld) -> None:
    await vms.source()
    await vms.source("mine", name="vm-template")
    message = await refusal(vms.create(), errors.AlreadyExists)
    assert message == DENIED.format("defaulter") + 'configmaps "vm-template" already exists'
    assert (await vms.copy())["data"] == {"template": "mine"}


async def test_what_a_failed_creation_left_is_taken_over(vms: VMWorld) -> None:
    """The copy with label and finalizer, and nobody who owns it."""
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


async def test_a_copy_whose_limavm_is_gone_is_released(vms: VMWorld) -> None:
    await vms.source()
    await vms.create()
    await vms.until_reason("Stopped")
    await vms.patch({"metadata": {"finalizers": None}})
    await vms.client.delete(LIMAVMS, "vm", namespace="default")
    await gone(vms.world, CONFIG_MAPS, "vm-template")


async def test_a_copy_that_was_removed_by_force_comes_back(vms: VMWorld) -> None:
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
    assert (said(vm)[1], vm["status"]["restartCount"]) == ("Started", 2)


async def test_a_large_template_is_read_from_its_source(vms: VMWorld) -> None:
    text = TEMPLATE + "".join(f"# {i:>70}\n" for i in range(4000))
    await vms.source(text)
    made = await vms.create()
    assert "annotations" not in made["metadata"]
    await vms.until_reason("Stopped")
    assert (await vms.copy())["data"] == {"template": text}


# -- params


async def test_params_that_the_template_does_not_have_are_refused(vms: VMWorld) -> None:
    why = (
        "failed to validate template: spec.params.COLOUR: the template has no such param; "
        "declared: GREETING"
    )
    await vms.source(WITH_PARAM)
    assert await refusal(vms.create(params={"COLOUR": "red"})) == DENIED.format("defaulter") + why
    await vms.create(params={"GREETING": "hi"})
    changed = vms.patch({"spec": {"params": {"COLOUR": "red"}}})
    assert await refusal(changed) == DENIED.format("validator") + why
    await vms.until_reason("Stopped")
    changed = vms.patch({"spec": {"params": {"COLOUR": "red"}}})
    assert await refusal(changed) == DENIED.format("validator") + why


async def test_a_template_must_keep_the_params_in_use(vms: VMWorld) -> None:
    await vms.source(WITH_PARAM)
    await vms.create(params={"GREETING": "hi"})
    await vms.until_reason("Stopped")
    message = await refusal(vms.edit(TEMPLATE))
    assert message.endswith("spec.params.GREETING: the template has no such param; declared: none")
    await vms.patch({"spec": {"params": None}})
    await vms.edit(TEMPLATE)


def test_a_template_without_other_params_stays_as_it_is_written() -> None:
    odd = "# a comment\nvmType:   host\n"
    assert with_params(odd, {}) == odd
    with pytest.raises(TemplateError):
        with_params(odd, {"X": "1"})


# -- deletion


async def test_a_limavm_of_an_app_is_deleted_with_the_app_only(vms: VMWorld) -> None:
    await vms.source()
    made = limavm("vm")
    made["metadata"]["finalizers"] = [owned_by("App")]
    await vms.client.create(LIMAVMS, made)
    for dry_run in (True, False):
        deletion = vms.client.delete(LIMAVMS, "vm", namespace="default", dry_run=dry_run)
        assert await refusal(deletion) == (
            DENIED.format("validator")
            + 'cannot delete "vm": owned by App; delete the App resource instead'
        )
