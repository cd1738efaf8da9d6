# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of the App and its virtual machine."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.app.app_world import (
    APPS,
    LIMAVMS,
    FakeMachines,
    app_object,
    apps,
    enabled,
    is_settled,
    patch_app,
    report,
    reported,
    settled,
    until_reported,
)
from tests.controllers.controller_world import (
    controller_environment,
    eventually,
    gone,
    managed,
    reasons,
)
from tests.runtime.runtime_world import World, open_world, until

from rdd.api import errors, names
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import template
from rdd.controllers.builtin.manager import BuiltinControllers
from rdd.host.trash import Trash
from rdd.kinds.app import App
from rdd.kinds.limavm import LimaVM
from rdd.runtime import find_condition
from rdd.vm.drivers.protocol import Availability

pytestmark = pytest.mark.looptime

OWNED = "rdd.rancherdesktop.io/owned-by-App"
CLEANUP = "rdd.rancherdesktop.io/cleanup"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        await enabled(opened)
        yield opened


async def copy_of(world: World) -> dict[str, Any]:
    return await world.client.get(CONFIG_MAPS, "rd-template", namespace="default")


async def text_of(world: World) -> str:
    return str((await copy_of(world))["data"]["template"])


# -- creation


async def test_app_becomes_a_machine(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        app = await settled(world)
        vm = await world.client.get(LIMAVMS, "rd", namespace="default")
        assert vm["spec"] == {
            "running": True,
            "templateRef": {"name": "rd", "namespace": "default"},
        }
        assert OWNED in vm["metadata"]["finalizers"]
        (owner,) = vm["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "App",
            app["metadata"]["uid"],
            True,
        )
        assert CLEANUP in app["metadata"]["finalizers"]
        await gone(world, CONFIG_MAPS, "rd")
        assert app["status"]["virtualMachineType"] == "host"
        assert reported(app, "Created") == ("True", "Created")
        assert reported(app, "Running") == ("True", "Started")
        for condition in app["status"]["conditions"]:
            assert condition["observedGeneration"] == app["metadata"]["generation"]


async def test_missing_namespace_is_created_and_deleted_with_the_app(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(namespace="mine"))
        await settled(world)
        namespace = await world.client.get(NAMESPACES, "mine")
        assert namespace["metadata"]["ownerReferences"][0]["kind"] == "App"
        await world.client.get(LIMAVMS, "rd", namespace="mine")
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")
        namespaces = await world.client.list(NAMESPACES)
        left = {item["metadata"]["name"]: item["metadata"] for item in namespaces.items}
        assert "mine" not in left or left["mine"].get("deletionTimestamp")


async def test_foreign_namespace_stays(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "theirs"}})
    async with apps(world):
        await world.client.create(APPS, app_object(namespace="theirs"))
        await settled(world)
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")
        namespace = await world.client.get(NAMESPACES, "theirs")
        assert "deletionTimestamp" not in namespace["metadata"]


async def test_terminating_namespace_is_reported(world: World) -> None:
    await world.client.create(
        NAMESPACES, {"metadata": {"name": "mine", "finalizers": ["test/keep"]}}
    )
    await world.client.delete(NAMESPACES, "mine")
    async with apps(world):
        await world.client.create(APPS, app_object(namespace="mine"))
        app = await until_reported(world, "False", "NamespaceTerminating")
        condition = find_condition(app["status"]["conditions"], "Settled")
        assert condition is not None
        assert condition["message"] == 'Namespace "mine" is being deleted'


async def test_foreign_machine_is_not_changed(world: World) -> None:
    machines = FakeMachines()
    async with managed(world, machines.controller()):
        source = {"metadata": {"name": "t", "namespace": "default"}, "data": {"template": "x"}}
        await world.client.create(CONFIG_MAPS, source)
        theirs = {
            "metadata": {"name": "rd", "namespace": "default"},
            "spec": {"running": False, "templateRef": {"name": "t", "namespace": "default"}},
        }
        await world.client.create(LIMAVMS, theirs)
    async with apps(world, machines):
        await world.client.create(APPS, app_object(running=True))
        await until_reported(world, "False", "NotOurs")
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")
        vm = await world.client.get(LIMAVMS, "rd", namespace="default")
        assert "deletionTimestamp" not in vm["metadata"]


async def test_interrupted_creation_continues(world: World) -> None:
    machines = FakeMachines()
    async with apps(world, machines):
        await world.client.create(APPS, app_object())
        app = await settled(world)
    left = {
        "metadata": {
            "name": "rd",
            "namespace": "default",
            "ownerReferences": [
                {
                    "apiVersion": "app.rancherdesktop.io/v1alpha1",
                    "kind": "App",
                    "name": "app",
                    "uid": app["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "data": {"template": "half"},
    }
    await world.client.create(CONFIG_MAPS, left)
    async with apps(world, machines):
        await gone(world, CONFIG_MAPS, "rd")
        assert is_settled(await world.client.get(APPS, "app"))


async def test_rejected_template_is_reported(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object())
        await settled(world)
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["UPDATE"],
                            "resources": ["configmaps"],
                        }
                    ]
                },
                "validations": [{"expression": "false", "message": "not today"}],
            },
        }
        binding = {
            "metadata": {"name": "no"},
            "spec": {"policyName": "no", "validationActions": ["Deny"]},
        }
        served = await world.client.discover()
        by_kind = {found.kind: found for found in served.preferred().values()}
        await world.client.create(by_kind["ValidatingAdmissionPolicy"], policy)
        await world.client.create(by_kind["ValidatingAdmissionPolicyBinding"], binding)
        await patch_app(world, containerEngine={"name": "containerd"})
        app = await until_reported(world, "False", "Refused")
        condition = find_condition(app["status"]["conditions"], "Settled")
        assert condition is not None and "not today" in condition["message"]


# -- running


async def test_stop_and_start_reach_the_machine(world: World) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        await patch_app(world, running=False)
        app = await settled(world)
        assert reported(app, "Running") == ("False", "Stopped")
        await patch_app(world, running=True)
        await settled(world)
        assert machines.starts == 2


async def test_changed_engine_updates_the_template_before_the_start(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object())
        await settled(world)
        before = await text_of(world)
        await patch_app(world, running=True, containerEngine={"name": "containerd"})
        await settled(world)
        assert "CONTAINER_ENGINE: containerd" in await text_of(world)
        assert "CONTAINER_ENGINE: moby" in before


async def test_app_settles_after_the_template_is_applied(world: World) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        machines.applies = False
        await patch_app(world, containerEngine={"name": "containerd"})
        await until_reported(world, "False", "ApplyingTemplate")
        machines.applies = True
        machines.changed()
        await settled(world)


async def test_unrelated_settings_do_not_restart_the_machine(world: World) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        version = (await copy_of(world))["metadata"]["resourceVersion"]
        await patch_app(world, application={"updates": {"enabled": False}})
        await settled(world)
        assert (await copy_of(world))["metadata"]["resourceVersion"] == version
        assert machines.starts == 1


async def test_edited_template_is_reverted(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        ours = await text_of(world)
        patch = {"data": {"template": ours + "plain: true\n"}}
        await world.client.patch(CONFIG_MAPS, "rd-template", patch, namespace="default")
        await eventually(
            world, CONFIG_MAPS, "rd-template", lambda obj: obj["data"]["template"] == ours
        )


async def test_upgrade_does_not_restart_a_running_machine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = FakeMachines()
    async with apps(world, machines):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        old = await text_of(world)
    made = template.template_of

    def upgraded(inputs: template.TemplateInputs) -> Any:
        return replace(made(inputs), message="new in this version")

    monkeypatch.setattr(template, "template_of", upgraded)
    async with apps(world, machines):
        app = await until_reported(world, "True", "TemplateChanged", "RestartPending")
        assert is_settled(app)
        assert await text_of(world) == old
        await patch_app(world, running=False)
        app = await settled(world)
        assert "new in this version" in await text_of(world)
        assert reported(app, "RestartPending") == ("", "")
        await patch_app(world, running=True)
        await settled(world)


async def test_requested_restart_applies_the_new_template(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = FakeMachines()
    async with apps(world, machines):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
    made = template.template_of
    monkeypatch.setattr(
        template, "template_of", lambda inputs: replace(made(inputs), message="new")
    )
    async with apps(world, machines):
        await until_reported(world, "True", "TemplateChanged", "RestartPending")
        annotation = {"lima.rancherdesktop.io/restartRequested": "now"}
        patch = {"metadata": {"annotations": annotation}}
        await world.client.patch(LIMAVMS, "rd", patch, namespace="default")
        await eventually(world, App, "app", lambda obj: reported(obj, "RestartPending") == ("", ""))
        assert "message: new" in await text_of(world)


# -- the driver


async def test_reports_all_drivers_if_none_works(world: World) -> None:
    is_installed: list[str] = []

    def probe(driver: str, environment: Mapping[str, str]) -> Availability:
        if driver in is_installed:
            return Availability(driver, True)
        return Availability(driver, False, f"no {driver}", f"apt-get install {driver}")

    async with apps(world, probe=probe):
        await world.client.create(APPS, app_object(running=True))
        app = await until_reported(world, "False", "NoDriver")
        condition = find_condition(app["status"]["conditions"], "Settled")
        assert condition is not None
        first, *rows = condition["message"].splitlines()
        assert first == "Nothing can run containers here:"
        assert rows == [
            "lima  no lima; to change that: apt-get install lima",
            "host  no host; to change that: apt-get install host",
            "qemu  no qemu; to change that: apt-get install qemu",
        ]
        is_installed.append("qemu")
        app = await settled(world)
        assert app["status"]["virtualMachineType"] == "qemu"
        vm = await world.client.get(LIMAVMS, "rd", namespace="default")
        assert vm["metadata"]["annotations"][names.DRIVER] == "qemu"  # no other driver runs it


async def test_type_of_an_existing_machine_is_immutable(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(virtualMachine={"type": "qemu"}))
        await settled(world)
        with pytest.raises(errors.Forbidden, match='cannot be changed to "host"'):
            await patch_app(world, virtualMachine={"type": "host"})
        await patch_app(world, virtualMachine={"type": "auto"})
        await patch_app(world, virtualMachine={"type": "qemu"})
        assert "vmType: qemu" in await text_of(world)


# -- the port of Kubernetes


async def test_port_follows_kubernetes_enabled(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(kubernetes={"enabled": True}))
        app = await settled(world)
        port = app["status"]["kubernetesPort"]
        assert port
        assert f'KUBERNETES_PORT: "{port}"' in await text_of(world)
        await patch_app(world, kubernetes={"enabled": False})
        app = await settled(world)
        assert "kubernetesPort" not in app["status"]
        assert "KUBERNETES_PORT" not in await text_of(world)
        await patch_app(world, kubernetes={"enabled": True})
        assert (await settled(world))["status"]["kubernetesPort"]


async def test_port_is_reserved_until_the_machine_starts(world: World) -> None:
    machines = FakeMachines()
    machines.is_created = False
    async with apps(world, machines):
        await world.client.create(APPS, app_object(running=True, kubernetes={"enabled": True}))
        app = await until_reported(world, "False", "WaitingForLimaVM")
        app = await eventually(
            world, App, "app", lambda obj: (obj.get("status") or {}).get("kubernetesPort")
        )
        port = app["status"]["kubernetesPort"]
        await until(lambda: is_in_use(port))
        machines.is_created = True
        machines.boots = False
        machines.changed()
        await until_reported(world, "False", "Starting")
        await until(lambda: not is_in_use(port))


async def test_port_in_use_before_the_start_is_replaced(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(kubernetes={"enabled": True}))
        port = (await settled(world))["status"]["kubernetesPort"]
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            await patch_app(world, running=True)
            app = await settled(world)
            assert app["status"]["kubernetesPort"] != port
            text = await text_of(world)
            assert f'KUBERNETES_PORT: "{app["status"]["kubernetesPort"]}"' in text


async def test_port_that_the_machine_reports_as_unavailable_is_replaced(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True, kubernetes={"enabled": True}))
        port = (await settled(world))["status"]["kubernetesPort"]
        with socket.create_server(("127.0.0.1", port)):
            patch = {"status": {"unavailablePorts": [port]}}
            await world.client.patch(
                LIMAVMS, "rd", patch, namespace="default", subresource="status"
            )
            await eventually(
                world, App, "app", lambda obj: obj["status"].get("kubernetesPort") not in (0, port)
            )


def is_in_use(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
            tried.listen()
        except OSError:
            return True
    return False


# -- status


async def test_conditions_removed_from_the_machine_are_removed(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)

        async def degraded(conditions: list[Any]) -> None:
            patch = {"status": {"conditions": conditions}}
            await world.client.patch(
                LIMAVMS, "rd", patch, namespace="default", subresource="status"
            )

        vm = await world.client.get(LIMAVMS, "rd", namespace="default")
        known = vm["status"]["conditions"]
        bad = {**known[0], "type": "Degraded", "reason": "Degraded", "message": "m"}
        await degraded([*known, bad])
        await eventually(world, App, "app", lambda obj: reported(obj, "Degraded")[1] == "Degraded")
        await report(world, "ContainerEngineReady", "True", "Connected")
        await degraded(known)
        app = await eventually(world, App, "app", lambda obj: reported(obj, "Degraded") == ("", ""))
        assert reported(app, "ContainerEngineReady") == ("True", "Connected")


async def test_transition_times_come_from_the_machine(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        app = await settled(world)
        vm = await world.client.get(LIMAVMS, "rd", namespace="default")
        mine = find_condition(app["status"]["conditions"], "Running")
        theirs = find_condition(vm["status"]["conditions"], "Running")
        assert mine is not None and theirs is not None
        assert mine["lastTransitionTime"] == theirs["lastTransitionTime"]


async def test_concurrent_change_is_not_reported_as_settled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        machines.stops = False
        seen: list[str] = []
        handle = world.server.handle

        async def interfering(request: Any) -> Any:
            if request.path.endswith("/apps/app/status") and not seen:
                seen.append(request.path)
                await patch_app(world, running=False)  # not reconciled yet
            return await handle(request)

        monkeypatch.setattr(world.server, "handle", interfering)
        await patch_app(world, application={"updates": {"enabled": False}})
        app = await until_reported(world, "False", "Started")
        assert seen
        assert app["metadata"]["generation"] == 3
        for version in range(1, 3):
            assert not is_settled({**app, "metadata": {"generation": version}})


async def test_concurrent_status_writers_lose_nothing(world: World) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)

        async def flap() -> None:
            for _ in range(10):
                machines.running = ("False", "Starting", "again")
                machines.changed()
                await until_reported(world, "False", "Starting", "Running")
                machines.running = None
                machines.changed()
                await until_reported(world, "True", "Started", "Running")

        async def engine() -> None:
            for number in range(20):
                await report(
                    world, "ContainerEngineReady", "True", "Connected", message=str(number)
                )
                app = await world.client.get(APPS, "app")
                found = find_condition(app["status"]["conditions"], "ContainerEngineReady")
                assert found is not None and found["message"] == str(number)

        await asyncio.gather(flap(), engine())
        app = await settled(world)
        assert {found["type"] for found in app["status"]["conditions"]} == {
            "Created", "Running", "Settled", "ContainerEngineReady",
        }  # fmt: skip
        assert app["status"]["virtualMachineType"] == "host"


async def test_long_messages_are_accepted(world: World) -> None:
    async with apps(world) as machines:
        machines.running = ("False", "StartFailed", "é" * 32768)
        await world.client.create(APPS, app_object(running=True))
        app = await until_reported(world, "False", "StartFailed")
        found = find_condition(app["status"]["conditions"], "Settled")
        assert found is not None and found["message"] == "é" * 32768


# -- deletion


async def test_deletion_removes_the_machine_then_the_app(world: World) -> None:
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        machines.is_gone = False
        await world.client.delete(APPS, "app")
        app = await until_reported(world, "False", "Deleting")
        assert CLEANUP in app["metadata"]["finalizers"]
        vm = await eventually(
            world, LimaVM, "rd", lambda obj: obj["metadata"].get("deletionTimestamp")
        )
        assert OWNED not in vm["metadata"]["finalizers"]
        machines.is_gone = True
        machines.changed()
        await gone(world, App, "app")
        await gone(world, CONFIG_MAPS, "rd-template")


async def test_machine_of_the_app_cannot_be_deleted(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object())
        await settled(world)
        with pytest.raises(errors.Forbidden, match="owned by App; delete the App resource"):
            await world.client.delete(LIMAVMS, "rd", namespace="default")


async def test_deletion_completes_with_a_terminating_machine(world: World) -> None:
    machines = FakeMachines()
    machines.is_gone = False
    async with apps(world, machines):
        await world.client.create(APPS, app_object())
        await settled(world)
    # Without its controller nothing rejects the deletion.
    for kind in ("ValidatingWebhookConfiguration",):
        served = await world.client.discover()
        resource = {r.kind: r for r in served.preferred().values()}[kind]
        await world.client.delete_collection(resource)
    await world.client.delete(LIMAVMS, "rd", namespace="default")
    await world.client.delete(APPS, "app")
    machines.is_gone = True
    async with apps(world, machines):
        await gone(world, App, "app")
        await gone(world, LimaVM, "rd")


async def test_deletion_waits_for_the_cleanup_of_other_controllers(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        await report(world, "ContainerEngineReady", "True", "Connected")
        await world.client.delete(APPS, "app")
        await gone(world, LimaVM, "rd")
        app = await eventually(world, App, "app", lambda obj: reported(obj, "Running") == ("", ""))
        assert CLEANUP in app["metadata"]["finalizers"]
        await report(world, "ContainerEngineReady", "False", "Stopped")
        await gone(world, App, "app")


async def test_deletion_does_not_wait_for_dead_controllers(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(running=True))
        await settled(world)
        await report(world, "KubernetesReady", "True", "Ready")
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")


async def test_deletion_while_the_machine_boots(world: World) -> None:
    async with apps(world) as machines:
        machines.boots = False
        await world.client.create(APPS, app_object(running=True))
        await until_reported(world, "False", "Starting")
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")


async def test_deletion_before_the_creation(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object(namespace="mine"))
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")


async def test_trash_keeps_the_settings_of_a_deleted_app(world: World, tmp_path: Path) -> None:
    env = controller_environment(tmp_path)
    trash = Trash(env.instance.trash_dirs)
    spec: dict[str, dict[str, Any]] = {
        "containerEngine": {"name": "containerd"},
        "virtualMachine": {"memory": "3Gi"},
        "application": {"updates": {"enabled": False}},
        "registries": {"insecure": ["one:5000"]},
        "proxy": {"httpProxy": "http://me:secret@proxy", "noProxy": ["two"]},
    }
    async with apps(world, env=env):
        await world.client.create(APPS, app_object(**spec))
        app = await settled(world)
        assert app["spec"]["virtualMachine"]["cpus"]  # a default, which is not kept
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")
    (entry,) = trash.entries()
    del spec["proxy"]["httpProxy"]
    assert json.loads(entry.details["settings"]) == spec
    assert json.loads(entry.details["omitted"]) == ["proxy.httpProxy"]
    assert "secret" not in (entry.path / "entry.json").read_text()


@pytest.mark.parametrize("path", ["/limavms/rd", "/configmaps/rd"])
async def test_failed_cleanup_keeps_the_finalizer(
    world: World, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = FakeMachines()
    async with apps(world, machines):
        await world.client.create(APPS, app_object())
        await settled(world)
        handle, fails = world.server.handle, True

        async def broken(request: Any) -> Any:
            from rdd.apiserver.http import responses

            if fails and request.method == "GET" and request.path.endswith(path):
                return responses.error(request, errors.InternalError("the disk is on fire"))
            return await handle(request)

        monkeypatch.setattr(world.server, "handle", broken)
        await world.client.delete(APPS, "app")
        app = await eventually(
            world, App, "app", lambda obj: obj["metadata"].get("deletionTimestamp")
        )
        assert CLEANUP in app["metadata"]["finalizers"]
        fails = False
        await gone(world, App, "app")


async def test_transitions_of_settled_are_events(world: World) -> None:
    async with apps(world):
        await world.client.create(APPS, app_object())
        await settled(world)
    notes = (await reasons(world, "app"))["ConditionChanged"]
    assert notes[-1] == "Settled=True: App has reached the desired state (Settled)"


async def test_objects_of_the_app_are_not_garbage_collected(world: World) -> None:
    builtin = BuiltinControllers(world.client, ("garbage-collector",))
    await builtin.start()
    try:
        async with apps(world, env=controller_environment(Path("/nonexistent"))):
            await world.client.create(APPS, app_object(namespace="mine"))
            await settled(world)
            await world.client.get(LIMAVMS, "rd", namespace="mine")
    finally:
        await builtin.stop(timeout_s=5)


async def test_conditions_of_an_earlier_process_are_reverted(world: World) -> None:
    await enabled(world)
    async with apps(world) as machines:
        await world.client.create(APPS, app_object(running=True))
        before = (await settled(world))["status"]
    # A graceful end reverts them at once: the next process may start much later.
    assert reported(await world.client.get(APPS, "app")) == ("False", "Reconciling")
    await world.client.patch(APPS, "app", {"status": before}, subresource="status")
    machines.running = ("Unknown", "Reconciling", "verifying")
    async with managed(world, machines.controller()):
        await eventually(world, LimaVM, "rd", lambda vm: reported(vm, "Running")[0] == "Unknown")
    async with apps(world, machines):
        # A client that waited for the controllers does not see the old conditions.
        found = await world.client.get(APPS, "app")
        assert (reported(found), reported(found, "Running")) == (
            ("False", "Reconciling"),
            ("Unknown", "Reconciling"),
        )
        machines.running = None
        machines.changed()
        await settled(world)


async def test_conditions_of_a_stopped_app_are_not_reverted(world: World) -> None:
    await enabled(world)
    async with apps(world) as machines:
        await world.client.create(APPS, app_object())
        version = (await settled(world))["metadata"]["resourceVersion"]
    async with apps(world, machines):
        await asyncio.sleep(5)
        assert (await settled(world))["metadata"]["resourceVersion"] == version
