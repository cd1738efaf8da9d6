# SPDX-License-Identifier: Apache-2.0
"""Machines that a deployment profile does not allow do not start, even without admission.

The server here has no profile, as if the objects had been written into the database.
"""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.controllers.lima.limavm_world import (
    LIMAVMS,
    TEMPLATE,
    FakeMachines,
    VMWorld,
    condition,
    reported,
)
from tests.runtime.runtime_world import open_world, until

from rdd.api import names
from rdd.api.types import Object
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS
from rdd.controllers.app.app import template
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.profiles import reading
from rdd.profiles.current import CurrentProfile
from rdd.profiles.places import Places
from rdd.runtime import resource_of

pytestmark = pytest.mark.looptime
APPS = resource_of(App)
LOCKS = "app: {locked: {kubernetes: {enabled: false}}}"


class ProfileWorld(VMWorld):
    """LimaVMs under a profile that can change."""

    path: Path

    def write(self, text: str) -> None:
        self.path.write_text(text)

    async def refused(self, name: str = "vm") -> str:
        """Wait until a start is refused; return why."""
        vm = await self.until_reason("StartFailed", name=name)
        assert vm["status"]["failure"]["reason"] == "NotAllowed"
        return reported(vm)[2]

    @property
    def starts(self) -> int:
        return len(self.machines.called("start"))


@pytest.fixture
async def vms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProfileWorld]:
    monkeypatch.setattr(reading, "_ROOT", os.getuid())
    profile = CurrentProfile(Places("7", tmp_path / "etc", tmp_path / "user"))
    profile.places.system_dir.mkdir(mode=0o755)
    async with open_world() as world:
        found = ProfileWorld(world, FakeMachines(tmp_path / "lima"))
        found.path = profile.places.system_dir / "rancher-desktop-2.yaml"
        async with found.managed(profile):
            yield found


async def test_machine_waits_until_it_is_allowed(vms: ProfileWorld) -> None:
    vms.write("limavm: {machines: app}")
    await vms.source()
    await vms.create(running=True)
    assert f"limavm.machines, {vms.path}:1" in await vms.refused()
    assert vms.starts == 0
    vms.path.unlink()
    await vms.until_reason("Started")


async def test_broken_profile_starts_nothing(vms: ProfileWorld) -> None:
    vms.write("x: 1")
    await vms.source()
    await vms.create(running=True)
    assert f"{vms.path}:1: x: unknown field" in await vms.refused()
    assert vms.starts == 0


async def test_edited_template_does_not_start(vms: ProfileWorld) -> None:
    digest = hashlib.sha256(TEMPLATE.encode()).hexdigest()
    vms.write(f"limavm: {{templates: ['sha256:{digest}']}}")
    await vms.source()
    await vms.create(running=True)
    await vms.until_reason("Started")
    await vms.run(False)
    await vms.until_reason("Stopped")
    await vms.edit(TEMPLATE.replace("one", "two"))
    await vms.run(True)
    assert "limavm.templates" in await vms.refused()
    await vms.edit(TEMPLATE)
    await vms.until_reason("Started")


async def test_running_machine_is_not_stopped_for_a_restart_that_is_refused(
    vms: ProfileWorld,
) -> None:
    await vms.source()
    await vms.create(running=True)
    await vms.until_reason("Started")
    vms.write("limavm: {machines: app}")
    await vms.annotate(names.RESTART_REQUESTED)
    vm = await vms.until(lambda vm: condition(vm, "Degraded").get("status") == "True")
    assert "the restart waits: only the virtual machine of the App" in reported(vm, "Degraded")[2]
    assert reported(vm)[1] == "Started"
    assert vms.machines.called("stop") == []
    vms.path.unlink()
    await until(lambda: vms.starts == 2)


# -- the machine of the App


async def make_app(vms: ProfileWorld, **spec: object) -> Object:
    """Create an App with a machine of the type host, as a database could have it."""
    await vms.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(App))
    await vms.world.server.custom.settled()
    wanted = {"running": True, "kubernetes": {"enabled": False}, **spec}
    await vms.client.create(APPS, {"metadata": {"name": "app"}, "spec": wanted})
    status = {"status": {"virtualMachineType": "host"}}
    return await vms.client.patch(APPS, "app", status, subresource="status")


async def make_machine(vms: ProfileWorld, app: Object, text: str, **spec: object) -> None:
    """Create the machine of the App with a template."""
    await vms.source(text)
    owner = {"apiVersion": app["apiVersion"], "kind": "App", "name": "app", "controller": True}
    metadata = {
        "name": names.APP_VM_NAME,
        "namespace": "default",
        "ownerReferences": [{**owner, "uid": app["metadata"]["uid"]}],
    }
    wanted = {"running": True, "templateRef": {"name": "source"}, **spec}
    await vms.client.create(LIMAVMS, {"metadata": metadata, "spec": wanted})


def template_of(vms: ProfileWorld, app: Object) -> str:
    """Return the template that the settings of an App give."""
    home = vms.machines.home.path.parent
    instance = Instance("7", home)
    inputs = template.inputs_of(App.of(app), "host", instance, home=home, environment={})
    return template.text_of(inputs)


async def test_app_that_deviates_does_not_start(vms: ProfileWorld) -> None:
    app = await make_app(vms, kubernetes={"enabled": True, "version": "1.34.6"})
    vms.write(LOCKS)
    await make_machine(vms, app, template_of(vms, app))
    assert "spec.kubernetes.enabled is locked to false" in await vms.refused(names.APP_VM_NAME)
    assert vms.starts == 0


@pytest.mark.parametrize("way", ["template", "params"])
async def test_app_starts_only_with_the_template_of_its_settings(
    vms: ProfileWorld, way: str
) -> None:
    app = await make_app(vms)
    right = template_of(vms, app)
    vms.write(LOCKS)
    if way == "template":
        await make_machine(vms, app, right + "message: mine\n")
    else:
        await make_machine(vms, app, right, params={"KUBERNETES_ENABLED": "true"})
    message = await vms.refused(names.APP_VM_NAME)
    assert f"does not have the template of the App's settings, which are locked by {vms.path}" in (
        message
    )
    if way == "template":
        await vms.edit(right, names.APP_VM_NAME)
    else:
        await vms.patch({"spec": {"params": None}}, names.APP_VM_NAME)
    await vms.until_reason("Started", name=names.APP_VM_NAME)


async def test_driver_that_is_not_that_of_the_app_does_not_start(vms: ProfileWorld) -> None:
    app = await make_app(vms)
    vms.write(LOCKS)
    await make_machine(vms, app, template_of(vms, app))
    await vms.until_reason("Started", name=names.APP_VM_NAME)
    await vms.run(False, names.APP_VM_NAME)
    await vms.until_reason("Stopped", name=names.APP_VM_NAME)
    await vms.annotate(names.DRIVER, "qemu", names.APP_VM_NAME)
    await vms.run(True, names.APP_VM_NAME)
    assert "does not have the template" in await vms.refused(names.APP_VM_NAME)


async def test_edited_file_is_written_again_before_a_start(vms: ProfileWorld) -> None:
    app = await make_app(vms)
    right = template_of(vms, app)
    vms.write(LOCKS)
    await make_machine(vms, app, right)
    await vms.until_reason("Started", name=names.APP_VM_NAME)
    await vms.run(False, names.APP_VM_NAME)
    await vms.until_reason("Stopped", name=names.APP_VM_NAME)
    path = vms.machines.home.directory(names.APP_VM_NAME).lima_yaml
    path.write_text(right + "message: mine\n")
    await vms.run(True, names.APP_VM_NAME)
    await vms.until_reason("Started", name=names.APP_VM_NAME)
    assert path.read_text() == right
