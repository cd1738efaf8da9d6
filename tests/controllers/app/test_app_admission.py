# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of the App on a real server."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trustme
from tests.controllers.app.app_world import APPS, app_object, works
from tests.controllers.controller_world import controller_environment, managed
from tests.runtime.runtime_world import World, open_world

from rdd.api import errors, names
from rdd.client import Client
from rdd.controllers.app.app import app
from rdd.controllers.app.app.admission import AppAdmission
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.runtime import Context, Controller, ObjectKey, Result
from rdd.vm.drivers.protocol import Availability

pytestmark = pytest.mark.looptime

GIB = 1 << 30


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


class Idle:
    def __init__(self, context: Context) -> None:
        pass

    async def reconcile(self, key: ObjectKey) -> Result:
        return Result.done()


def rules(environment: Mapping[str, str] | None = None, **facts: Any) -> Controller:
    facts = {"cpus": 8, "memory_bytes": 16 * GIB, "probe": only("qemu")} | facts
    admission = AppAdmission(environment or {}, **facts)
    return Controller("app", Idle, definitions=(definition_of(App),), webhooks=admission.webhooks())


def only(*drivers: str) -> Any:
    def probe(driver: str, environment: Mapping[str, str]) -> Availability:
        return Availability(driver, driver in drivers, "missing")

    return probe


async def created(world: World, **spec: Any) -> dict[str, Any]:
    obj = await world.client.create(APPS, app_object(**spec))
    found: dict[str, Any] = obj["spec"]
    await world.client.delete(APPS, "app")
    return found


async def test_defaults(world: World) -> None:
    async with managed(world, rules()):
        obj = await world.client.create(APPS, {"metadata": {"name": "app"}, "spec": {}})
        assert obj["spec"] == {
            "running": False,
            "namespace": "default",
            "containerEngine": {"name": "moby"},
            "kubernetes": {"enabled": False},
            "virtualMachine": {"cpus": 2, "memory": "4Gi"},
            "application": {"updates": {"enabled": True}},
        }


async def test_rejects_app_without_spec(world: World) -> None:
    async with managed(world, rules()):
        with pytest.raises(errors.Invalid, match=r"spec\.containerEngine\.name"):
            await world.client.create(APPS, {"metadata": {"name": "app"}})


async def test_rejects_second_app(world: World) -> None:
    async with managed(world, rules()):
        with pytest.raises(errors.Invalid, match="App resource must be named 'app'"):
            await world.client.create(
                APPS, {"metadata": {"name": "other"}, "spec": {"running": False}}
            )


@pytest.mark.parametrize(
    ("requested", "stored"),
    [
        ({"enabled": True}, {"enabled": True, "version": "1.34.6"}),
        ({"enabled": True, "version": "stable"}, {"enabled": True, "version": "1.34.6"}),
        ({"enabled": True, "version": "latest"}, {"enabled": True, "version": "1.35.3"}),
        ({"enabled": False, "version": "v1.32"}, {"enabled": False, "version": "1.32.13"}),
        ({"version": "1.33.7"}, {"enabled": False, "version": "1.33.7"}),
        ({"enabled": False}, {"enabled": False}),
    ],
)
async def test_channels_are_resolved_to_versions(
    world: World, requested: dict[str, Any], stored: dict[str, Any]
) -> None:
    async with managed(world, rules()):
        assert (await created(world, kubernetes=requested))["kubernetes"] == stored


@pytest.mark.parametrize(
    ("memory_bytes", "stored"),
    [(2 * GIB, "2Gi"), (12 * GIB, "3Gi"), (64 * GIB, "6Gi"), (8 * GIB, "2Gi")],
)
async def test_default_memory_is_a_quarter_between_two_and_six(
    world: World, memory_bytes: int, stored: str
) -> None:
    async with managed(world, rules(memory_bytes=memory_bytes)):
        assert (await created(world))["virtualMachine"]["memory"] == stored


async def test_quantities_become_canonical(world: World) -> None:
    async with managed(world, rules()):
        stored = await created(world, virtualMachine={"memory": "4096Mi"})
        assert stored["virtualMachine"]["memory"] == "4Gi"
        stored = await created(world, virtualMachine={"memory": 4 * GIB})
        assert stored["virtualMachine"]["memory"] == "4294967296"


@pytest.mark.parametrize(
    ("value", "cpus", "stored"),
    [("", 8, 2), ("", 1, 1), ("4", 8, 4), ("16", 8, 8)],
)
async def test_default_cpus_come_from_the_environment(
    world: World, value: str, cpus: int, stored: int
) -> None:
    async with managed(world, rules({"RDD_VM_CPUS": value}, cpus=cpus)):
        assert (await created(world))["virtualMachine"]["cpus"] == stored
        zero = await created(world, virtualMachine={"cpus": 0})
        assert zero["virtualMachine"]["cpus"] == stored


@pytest.mark.parametrize("value", ["x", "-1", "0", "1.5"])
async def test_rejects_invalid_environment(world: World, value: str) -> None:
    async with managed(world, rules({"RDD_VM_CPUS": value})):
        with pytest.raises(errors.Forbidden, match=f'invalid RDD_VM_CPUS value "{value}"'):
            await created(world)


REFUSED = [
    pytest.param(
        {"kubernetes": {"enabled": False, "version": "1.34.0"}},
        r'spec\.kubernetes\.version "1\.34\.0" is not supported; supported are 1\.32\.0, .*'
        r"and the channels latest, stable, ",
        id="version",
    ),
    pytest.param({"virtualMachine": {"cpus": -1}}, "cpus -1 must not be negative", id="negative"),
    pytest.param({"virtualMachine": {"cpus": 9}}, "exceeds the host CPU count of 8", id="cpus"),
    pytest.param(
        {"virtualMachine": {"memory": "1Gi"}}, "1Gi is less than the minimum of 2Gi", id="little"
    ),
    pytest.param(
        {"virtualMachine": {"memory": "17Gi"}}, "17Gi exceeds the host memory of 16Gi", id="much"
    ),
    pytest.param({"proxy": {"httpProxy": "proxy:3128"}}, r"spec\.proxy\.httpProxy", id="proxy"),
    pytest.param(
        {"proxy": {"httpsProxy": 'http://x" y'}}, r"spec\.proxy\.httpsProxy", id="proxy quotes"
    ),
    pytest.param({"proxy": {"noProxy": ["a b"]}}, r"spec\.proxy\.noProxy\[0\]", id="no proxy"),
    pytest.param(
        {"registries": {"mirrors": [{"registry": "a/b", "endpoints": ["x"]}]}},
        r'mirrors\[0\]\.registry "a/b" .*; .*endpoints\[0\] "x" must be a URL',
        id="mirror",
    ),
    pytest.param(
        {"registries": {"insecure": ["http://x"]}}, r"registries\.insecure\[0\]", id="insecure"
    ),
    pytest.param(
        {"registries": {"insecure": ["x:99999"]}}, r"registries\.insecure\[0\]", id="no such port"
    ),
    pytest.param(
        {"virtualMachine": {"cpus": 9, "memory": "17Gi"}}, "count of 8; .*memory of 16Gi", id="two"
    ),
]


@pytest.mark.parametrize(("spec", "why"), REFUSED)
async def test_rejects_values_beyond_the_limits(
    world: World, spec: dict[str, Any], why: str
) -> None:
    async with managed(world, rules()):
        with pytest.raises(errors.Forbidden, match=why) as refused:
            await created(world, **spec)
        assert "app-validator.app.rancherdesktop.io" in str(refused.value)
        await created(world)


HOSTS = pytest.mark.parametrize("type_", ["host", "auto", None])


def _of_type(type_: str | None, **machine: Any) -> dict[str, Any]:
    return machine | ({"type": type_} if type_ else {})


@HOSTS
@pytest.mark.parametrize(
    ("machine", "why"),
    [
        ({"memory": "8"}, "8 is less than the minimum of 2Gi"),
        ({"memory": "999Gi"}, "999Gi exceeds the host memory of 16Gi"),
        ({"cpus": 9}, "exceeds the host CPU count of 8"),
        ({"cpus": -1}, "must not be negative"),
    ],
)
async def test_type_host_has_the_limits_of_virtual_machines(
    world: World, type_: str | None, machine: dict[str, Any], why: str
) -> None:
    async with managed(world, rules(probe=only("host"), missing_limits=lambda _: "")):
        with pytest.raises(errors.Forbidden, match=why):
            await created(world, virtualMachine=_of_type(type_, **machine))


async def test_disk_grows_only(world: World) -> None:
    async with managed(world, rules(probe=only("qemu"))):
        for size, why in (("1Gi", "must be from 10Gi to 64Ti"), ("65Ti", "must be from 10Gi")):
            with pytest.raises(errors.Forbidden, match=f"disk {size} {why}"):
                await created(world, virtualMachine={"disk": size})
        # Before the machine exists any size is possible.
        stored = await created(world, virtualMachine={"type": "qemu", "disk": "20Gi"})
        assert stored["virtualMachine"]["disk"] == "20Gi"
        await world.client.create(APPS, app_object(virtualMachine={"type": "qemu"}))
        status = {"status": {"virtualMachineType": "qemu"}}
        await world.client.patch(APPS, "app", status, subresource="status")
        with pytest.raises(errors.Forbidden, match="disk 50Gi is less than the current 100Gi"):
            await _patch(world, {"disk": "50Gi"})
        await _patch(world, {"disk": "204800Mi"})
        with pytest.raises(errors.Forbidden, match="150Gi is less than the current 200Gi"):
            await _patch(world, {"disk": "150Gi"})
        with pytest.raises(errors.Forbidden, match="cannot be removed: the disk has 200Gi"):
            await _patch(world, {"disk": None})


@HOSTS
async def test_type_host_has_no_disk(world: World, type_: str | None) -> None:
    async with managed(world, rules(probe=only("host"))):
        with pytest.raises(errors.Forbidden, match="the type host has no disk of its own"):
            await created(world, virtualMachine=_of_type(type_, disk="200Gi"))


@pytest.mark.parametrize(
    "logs",
    [
        *({"maxSize": size} for size in ("", "0", "20", "20M", "1.5g", "-1m", "20mb", 20)),
        *({"maxFiles": count} for count in (0, -1, 101, "5")),
    ],
)
async def test_invalid_bounds_of_logs_are_rejected(world: World, logs: dict[str, Any]) -> None:
    async with managed(world, rules()):
        with pytest.raises(errors.Invalid, match=r"spec\.containerEngine\.logs\.max"):
            await created(world, containerEngine={"name": "moby", "logs": logs})


@HOSTS
async def test_small_host_without_a_virtual_machine_has_no_default_memory(
    world: World, type_: str | None
) -> None:
    async with managed(world, rules(memory_bytes=GIB, probe=only("host"))):
        stored = await created(world, virtualMachine=_of_type(type_))
        assert "memory" not in stored["virtualMachine"]


@HOSTS
async def test_explicit_limits_are_rejected_where_they_cannot_be_enforced(
    world: World, type_: str | None
) -> None:
    facts: dict[str, Any] = {"probe": only("host"), "missing_limits": lambda _: "no cgroups"}
    async with managed(world, rules(**facts)):
        for name, value in (("cpus", 2), ("memory", "2Gi")):
            why = f"spec.virtualMachine.{name} cannot be enforced on this host: no cgroups"
            with pytest.raises(errors.Forbidden, match=why):
                await created(world, virtualMachine=_of_type(type_, **{name: value}))
        await world.client.create(APPS, app_object(virtualMachine=_of_type(type_)))
        with pytest.raises(errors.Forbidden, match="cannot be enforced"):
            await _patch(world, {"cpus": 3})
        await _patch(world, {"cpus": 0, "memory": None})


async def test_limits_of_virtual_machines_need_no_control_groups(world: World) -> None:
    async with managed(world, rules(missing_limits=lambda _: "no cgroups")):
        await created(world, virtualMachine={"cpus": 2, "memory": "2Gi"})


async def _patch(world: World, machine: dict[str, Any], **annotations: Any) -> dict[str, Any]:
    patch = {"metadata": {"annotations": annotations}, "spec": {"virtualMachine": machine}}
    return await world.client.patch(APPS, "app", patch)


def _marks(app: dict[str, Any]) -> tuple[str, str]:
    found = app["metadata"]["annotations"]
    return found[names.CPUS_DEFAULTED], found[names.MEMORY_DEFAULTED]


async def test_defaults_and_explicit_values_are_distinguished(world: World) -> None:
    async with managed(world, rules()):
        app = await world.client.create(APPS, app_object())
        assert _marks(app) == ("true", "true")
        app = await world.client.update(APPS, app)  # with the values of the defaults
        assert _marks(app) == ("true", "true")
        app = await _patch(world, {"cpus": 3})
        assert _marks(app) == ("false", "true")
        app = await _patch(world, {"memory": "4Gi"}, **{names.MEMORY_DEFAULTED: "false"})
        assert (app["spec"]["virtualMachine"]["memory"], *_marks(app)) == ("4Gi", "false", "false")
        app = await _patch(world, {"cpus": 0, "memory": None})
        assert app["spec"]["virtualMachine"] == {"cpus": 2, "memory": "4Gi"}
        assert _marks(app) == ("true", "true")
        bare = {key: app["metadata"][key] for key in ("name", "resourceVersion")}
        app = await world.client.update(APPS, {**app, "metadata": bare})
        assert _marks(app) == ("false", "false")  # a file that has the values


async def test_backup_of_an_app_keeps_its_defaults(world: World) -> None:
    async with managed(world, rules()):
        app = await world.client.create(APPS, app_object())
        await world.client.delete(APPS, "app")
        del app["metadata"]["resourceVersion"]
        app = await world.client.create(APPS, app)
        assert _marks(app) == ("true", "true")


@pytest.mark.parametrize(
    ("cpus", "memory", "marks"), [(2, "4Gi", ("true", "true")), (3, "8Gi", ("false", "false"))]
)
async def test_app_of_an_older_release_has_defaults_if_it_has_their_values(
    world: World, cpus: int, memory: str, marks: tuple[str, str]
) -> None:
    machine = {"cpus": cpus, "memory": memory}
    async with managed(world, Controller("app", Idle, definitions=(definition_of(App),))):
        await world.client.create(APPS, app_object(virtualMachine=machine))
    async with managed(world, rules()):
        app = await world.client.patch(APPS, "app", {"spec": {"running": True}})
        assert _marks(app) == marks


async def test_value_from_before_does_not_prevent_a_stop(world: World) -> None:
    async with managed(world, rules()):
        await world.client.create(APPS, app_object(virtualMachine={"cpus": 8, "memory": "16Gi"}))
    async with managed(world, rules(cpus=2, memory_bytes=4 * GIB)):
        app = await world.client.patch(APPS, "app", {"spec": {"running": False}})
        assert app["spec"]["virtualMachine"]["cpus"] == 8
        with pytest.raises(errors.Forbidden, match="exceeds the host CPU count of 2"):
            await _patch(world, {"cpus": 4})


async def test_rejects_host_with_too_little_memory(world: World) -> None:
    async with managed(world, rules(memory_bytes=GIB)):
        with pytest.raises(errors.Forbidden, match=r"the host has 1Gi of memory; .* at least 2Gi"):
            await created(world)


async def test_warns_about_ignored_authorities_and_mirrors(world: World) -> None:
    warnings: list[str] = []
    client = Client(world.client.transport, on_warning=warnings.append)
    good = trustme.CA().cert_pem.bytes().decode()
    async with managed(world, rules()):
        await client.create(
            APPS,
            app_object(
                certificates={"authorities": [good, "rubbish"]},
                registries={
                    "mirrors": [
                        {"registry": "docker.io", "endpoints": ["https://m"]},
                        {"registry": "ghcr.io", "endpoints": ["https://m"]},
                    ]
                },
            ),
        )
    assert warnings == [
        "spec.certificates.authorities[1] is ignored: not a PEM certificate",
        "the engine moby supports mirrors of docker.io only, not of ghcr.io",
    ]


async def test_warnings_are_not_repeated_by_changes_of_other_settings(world: World) -> None:
    warnings: list[str] = []
    client = Client(world.client.transport, on_warning=warnings.append)
    async with managed(world, rules()):
        await client.create(APPS, app_object(certificates={"authorities": ["rubbish"]}))
        await client.patch(APPS, "app", {"spec": {"running": True}})
        await client.patch(APPS, "app", {"spec": {"running": False}})
        assert len(warnings) == 1
        more = {"certificates": {"authorities": ["rubbish", "worse"]}}
        await client.patch(APPS, "app", {"spec": more})
    assert [text.partition(" ")[0] for text in warnings] == [
        "spec.certificates.authorities[0]",
        "spec.certificates.authorities[1]",
    ]


async def test_webhooks_have_the_documented_names(world: World) -> None:
    async with managed(world, app(controller_environment(), probe=works)):
        served = await world.client.discover()
        by_kind = {found.kind: found for found in served.preferred().values()}
        for kind, name in (
            ("MutatingWebhookConfiguration", "app-defaulter"),
            ("ValidatingWebhookConfiguration", "app-validator"),
        ):
            found = await world.client.get(by_kind[kind], name)
            (webhook,) = found["webhooks"]
            assert webhook["name"] == f"{name}.app.rancherdesktop.io"
            assert webhook["rules"][0]["operations"] == ["CREATE", "UPDATE"]
