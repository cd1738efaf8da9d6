# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of the App on a real server."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trustme
from tests.controllers.app.app_world import APPS, app_object, works
from tests.controllers.controller_world import controller_environment, managed
from tests.runtime.runtime_world import World, open_world

from rdd.api import errors
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


@pytest.mark.parametrize("type_", ["host", "auto", None])
async def test_memory_has_no_limits_without_a_virtual_machine(
    world: World, type_: str | None
) -> None:
    machine = {"memory": "1Gi"} | ({"type": type_} if type_ else {})
    async with managed(world, rules(memory_bytes=GIB, probe=only("host"))):
        stored = await created(world, virtualMachine=machine)
        assert stored["virtualMachine"]["memory"] == "1Gi"
        assert "memory" not in (await created(world))["virtualMachine"]


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
