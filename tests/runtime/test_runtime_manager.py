# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of a manager: start order, admission, draining, races."""

import asyncio
import socket
import ssl
from typing import Any

import pytest
import trustme
from tests.runtime.runtime_world import (
    Recorder,
    World,
    config_map,
    loop_clock,
    recorded,
    until,
)

from rdd.api import errors
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.client import ApiResource
from rdd.client.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from rdd.kinds.catalog import crds_of
from rdd.kinds.notary import Notary
from rdd.runtime import (
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    HttpsHost,
    InProcessHost,
    Manager,
    ManagerOptions,
    NotEstablished,
    ObjectKey,
    Ownership,
    Result,
    Stopped,
    Webhook,
    defaulting,
    resource_of,
    validating,
    watch,
)
from rdd.runtime.definitions import install_definition
from rdd.runtime.events import EVENTS

NOTARIES = resource_of(Notary)
VALIDATING = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)

fake_time = pytest.mark.looptime


def manager_of(world: World, *controllers: Controller, **options: Any) -> Manager:
    host = InProcessHost(world.server.endpoints)
    options = {"clock": loop_clock, **options}
    return Manager("m", world.client, controllers, host=host, options=ManagerOptions(**options))


async def check(request: AdmissionRequest[Notary]) -> None:
    if request.object.spec.value == "bad":
        raise Denied("bad values are not recorded")


async def complete(request: AdmissionRequest[Notary]) -> Notary:
    spec = request.object.spec
    if spec.config_map_name:
        return request.object
    return request.object.replace(spec=spec.replace(config_map_name="default-name"))


def notary_controller(recorder: Recorder) -> Controller:
    return recorded(
        "notary",
        recorder,
        watch(Notary),
        definitions=crds_of("notary"),
        webhooks=(
            validating("notary-validator", Notary, check),
            defaulting("notary-defaulter", Notary, complete),
        ),
    )


def notary(name: str, value: str) -> dict[str, Any]:
    return {**config_map(name), "spec": {"value": value, "configMapName": ""}}


@fake_time
async def test_first_write_after_the_start_has_kinds_and_admission(world: World) -> None:
    recorder = Recorder()
    manager = manager_of(world, notary_controller(recorder))
    await manager.start()
    made = await world.client.create(NOTARIES, notary("a", "v"))
    assert made["spec"] == {"value": "v", "configMapName": "default-name"}
    with pytest.raises(errors.Forbidden) as rejected:
        await world.client.create(NOTARIES, notary("b", "bad"))
    assert rejected.value.message == (
        'admission webhook "notary-validator.rdd.rancherdesktop.io" denied the request: '
        "bad values are not recorded"
    )
    await until(lambda: recorder.names == ["a"])
    await manager.stop()


@fake_time
async def test_start_steps_are_sequential(world: World) -> None:
    steps: list[str] = []
    inner = world.server.handle

    async def handle(request: Request) -> AnyResponse:
        info = request.info
        if info.resource in ("customresourcedefinitions", "notaries") or "webhook" in info.resource:
            steps.append(f"{info.verb} {info.resource}")
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]

    def make(context: Context) -> Recorder:
        assert context.cache.informer(Notary).has_synced
        steps.append("reconciler")
        return Recorder(context)

    declared = notary_controller(Recorder())
    controller = Controller(
        "notary",
        make,
        sources=declared.sources,
        definitions=declared.definitions,
        webhooks=declared.webhooks,
    )
    manager = manager_of(world, controller)
    await manager.start()
    order = [step for step in steps if not step.startswith(("get", "watch custom", "list custom"))]
    assert order[:3] == [
        "create customresourcedefinitions",
        "watch notaries",
        "patch validatingwebhookconfigurations",
    ]
    assert order[-1] == "reconciler"
    assert manager.running == ("notary",)
    await manager.stop()


@fake_time
async def test_configurations_have_the_url_of_this_run_and_a_field_manager(
    world: World,
) -> None:
    for _ in range(2):
        manager = manager_of(world, notary_controller(Recorder()))
        await manager.start()
        found = await world.client.get(VALIDATING, "notary-validator")
        (owner,) = found["metadata"]["managedFields"]
        assert (owner["manager"], owner["operation"]) == ("rdd-webhook-manager", "Apply")
        await world.client.create(NOTARIES, notary(f"n{_}", "v"))
        await manager.stop()
    # No process serves the webhook, and the server fails closed.
    with pytest.raises(errors.InternalError, match="failed calling webhook"):
        await world.client.create(NOTARIES, notary("late", "v"))


@fake_time
async def test_webhook_handlers_can_use_the_cache(world: World) -> None:
    def webhooks(context: Context) -> tuple[Webhook, ...]:
        async def unique(request: AdmissionRequest[Notary]) -> None:
            same = request.object.spec.value
            if any(n.spec.value == same for n in context.cache.of(Notary).list()):
                raise Denied(f'value "{same}" is already recorded')

        return (validating("unique", Notary, unique, operations=("CREATE",)),)

    recorder = Recorder()
    declared = notary_controller(recorder)
    controller = Controller(
        "notary",
        declared.reconciler,
        sources=declared.sources,
        definitions=declared.definitions,
        webhooks=webhooks,
    )
    manager = manager_of(world, controller)
    await manager.start()
    await world.client.create(NOTARIES, notary("a", "v"))
    await until(lambda: recorder.names == ["a"])
    with pytest.raises(errors.Forbidden, match='value "v" is already recorded'):
        await world.client.create(NOTARIES, notary("b", "v"))
    await manager.stop()


@fake_time
async def test_updates_an_outdated_definition(world: World) -> None:
    (wanted,) = crds_of("notary")
    (old,) = crds_of("notary")
    old["spec"]["names"]["shortNames"] = ["nt"]
    old["metadata"]["annotations"]["other"] = "kept"
    await install_definition(world.client, old)
    await world.client.create(NOTARIES, {**notary("a", "v"), "spec": _SPEC})
    await install_definition(world.client, wanted)
    found = await world.client.get(CUSTOM_RESOURCE_DEFINITIONS, wanted["metadata"]["name"])
    assert found["spec"] == wanted["spec"]
    assert found["metadata"]["annotations"]["other"] == "kept"
    assert (await world.client.get(NOTARIES, "a", namespace="default"))["spec"] == _SPEC
    before = found["metadata"]["resourceVersion"]
    await install_definition(world.client, wanted)
    found = await world.client.get(CUSTOM_RESOURCE_DEFINITIONS, wanted["metadata"]["name"])
    assert found["metadata"]["resourceVersion"] == before


_SPEC = {"value": "v", "configMapName": "c"}


@fake_time
async def test_reports_a_definition_with_conflicting_names(world: World) -> None:
    (first,) = crds_of("notary")
    await install_definition(world.client, first)
    (second,) = crds_of("notary")
    second["metadata"]["name"] = "others.rdd.rancherdesktop.io"
    second["spec"]["names"].update(plural="others", singular="other")
    with pytest.raises(NotEstablished, match=r"others.rdd.* is not served after 5 s: .*Notary"):
        await install_definition(world.client, second, timeout_s=5)


@fake_time
async def test_failed_start_stops_everything(world: World) -> None:
    def broken(context: Context) -> Recorder:
        raise RuntimeError("no engine")

    fine = recorded("fine", Recorder())
    manager = manager_of(world, fine, Controller("broken", broken))
    with pytest.raises(RuntimeError, match="no engine"):
        await manager.start()
    assert manager.running == ()
    assert not [t for t in asyncio.all_tasks() if "rdd-worker" in t.get_name()]


@fake_time
async def test_stop_completes_keys_in_progress_and_starts_no_others(world: World) -> None:
    ended: list[str] = []

    async def slow(key: ObjectKey) -> Result:
        await asyncio.sleep(5)
        ended.append(key.name)
        return Result.done()

    recorder = Recorder()
    recorder.do = slow
    manager = manager_of(world, recorded("c", recorder))
    await manager.start()
    await world.create("a")
    await until(lambda: recorder.names == ["a"])
    await world.create("b")
    stopping = asyncio.ensure_future(manager.stop())
    await asyncio.sleep(1)
    assert manager.problem() == "the manager is stopping"
    await stopping
    assert ended == ["a"]
    assert recorder.names == ["a"]


@fake_time
async def test_controllers_share_one_drain_timeout(world: World) -> None:
    async def forever(key: ObjectKey) -> Result:
        await asyncio.sleep(10_000)
        return Result.done()

    recorders = [Recorder(), Recorder()]
    for recorder in recorders:
        recorder.do = forever
    controllers = [recorded(f"c{i}", recorder) for i, recorder in enumerate(recorders)]
    manager = manager_of(world, *controllers, drain_s=10)
    await manager.start()
    await world.create("a")
    await until(lambda: all(r.names for r in recorders))
    begun = asyncio.get_running_loop().time()
    await manager.stop()
    assert round(asyncio.get_running_loop().time() - begun) == 10


@fake_time
@pytest.mark.parametrize("turns", [0, 1, 5, 20, 60, 100, 200])
async def test_stop_during_start(world: World, turns: int) -> None:
    manager = manager_of(world, notary_controller(Recorder()))
    starting = asyncio.ensure_future(manager.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    await manager.stop()
    (outcome,) = await asyncio.gather(starting, return_exceptions=True)
    assert outcome is None or isinstance(outcome, Stopped)
    await manager.stop()
    assert not [t.get_name() for t in asyncio.all_tasks() if "rdd-controller" in t.get_name()]


@fake_time
async def test_writes_the_last_events_before_the_stop(world: World) -> None:
    recorder = Recorder()

    async def record(key: ObjectKey) -> Result:
        assert recorder.context is not None
        obj = recorder.context.cache.get(CONFIG_MAPS, key)
        assert obj is not None
        recorder.context.events.event(obj, "Normal", "Seen", "it was seen")
        return Result.done()

    recorder.do = record
    manager = manager_of(world, recorded("c", recorder))
    await manager.start()
    await world.create("a")
    await until(lambda: recorder.names)
    await manager.stop()
    (event,) = (await world.client.list(EVENTS, namespace="default")).items
    assert (event["reason"], event["reportingController"]) == ("Seen", "rdd.rancherdesktop.io/c")


@fake_time
async def test_reports_a_controller_that_fails_after_waiting(world: World) -> None:
    def broken(context: Context) -> Recorder:
        raise RuntimeError("no engine")

    holder = Ownership(world.client, "holder", clock=loop_clock)
    await holder.start()
    claim = await holder.acquire("c")
    ownership = Ownership(world.client, "m", clock=loop_clock)
    manager = Manager("m", world.client, [Controller("c", broken)], ownership=ownership)
    await manager.start()
    assert manager.failed is not None
    assert manager.problem() == ""
    await holder.release(claim)
    assert "no engine" in repr(await manager.failed)
    assert manager.problem() == "c is broken"
    await manager.stop()
    await holder.stop()


class Machines(Recorder):
    """A reconciler with a drain hook."""

    async def drain(self) -> None:
        assert self.context is not None
        await asyncio.sleep(5)
        data = {"data": {"state": "stopped"}}
        await self.context.client.patch(CONFIG_MAPS, "vm", data, namespace="default")


@fake_time
async def test_drain_hook_can_still_write(world: World) -> None:
    machines = Machines()
    await world.create("vm")
    ownership = Ownership(world.client, "m", clock=loop_clock)
    manager = Manager("m", world.client, [recorded("c", machines)], ownership=ownership)
    await manager.start()
    await until(lambda: machines.names == ["vm"])
    await manager.stop()
    assert (await world.get("vm"))["data"] == {"state": "stopped"}
    assert [status for _, _, status in world.writes] == [200]


@fake_time
async def test_retries_the_start_of_an_acquired_controller(world: World) -> None:
    holder = Ownership(world.client, "holder", clock=loop_clock)
    await holder.start()
    claim = await holder.acquire("notary")
    recorder = Recorder()
    ownership = Ownership(world.client, "m", clock=loop_clock)
    manager = Manager(
        "m",
        world.client,
        [notary_controller(recorder)],
        ownership=ownership,
        host=InProcessHost(world.server.endpoints),
        options=ManagerOptions(clock=loop_clock),
    )
    await manager.start()
    assert manager.running == ()
    inner, failures = world.server.handle, 3

    async def handle(request: Request) -> AnyResponse:
        nonlocal failures
        if failures and request.info.resource == "customresourcedefinitions":
            failures -= 1
            return responses.error(request, errors.InternalError.because("the disk is full"))
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]
    await holder.release(claim)
    await until(lambda: manager.running == ("notary",))
    assert failures == 0
    await manager.stop()
    await holder.stop()


def test_validates_controllers_and_hosts_before_the_start() -> None:
    client: Any = None
    one = Controller("c", Recorder)
    with pytest.raises(ValueError, match="controllers given twice: c"):
        Manager("m", client, [one, one])
    with pytest.raises(ValueError, match="controllers with webhooks need a host: notary"):
        Manager("m", client, [notary_controller(Recorder())])


async def test_external_manager_serves_webhooks_and_health(world: World) -> None:
    import aiohttp

    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    host = HttpsHost(sockets[0], tls, ca_bundle=authority.cert_pem.bytes().decode())
    options = ManagerOptions(
        health_socket=sockets[1], metrics_socket=sockets[2], has_open_metrics=True
    )
    recorder = Recorder()
    manager = Manager("m", world.client, [notary_controller(recorder)], host=host, options=options)
    await manager.start()
    try:
        made = await world.client.create(NOTARIES, notary("a", "v"))
        assert made["spec"]["configMapName"] == "default-name"
        with pytest.raises(errors.Forbidden, match="bad values are not recorded"):
            await world.client.create(NOTARIES, notary("b", "bad"))
        await until(lambda: recorder.names == ["a"])
        ports = [s.getsockname()[1] for s in sockets]
        context = ssl.create_default_context(cadata=host.ca_bundle)
        async with aiohttp.ClientSession() as session:
            for path in ("healthz", "readyz"):
                async with session.get(f"http://127.0.0.1:{ports[1]}/{path}") as response:
                    assert (response.status, await response.text()) == (200, "ok")
            async with session.get(f"http://127.0.0.1:{ports[2]}/metrics") as response:
                text = await response.text()
            url = f"{host.url_prefix}/validating-notary-validator"
            async with session.post(url, data=b"{}", ssl=context) as response:
                assert response.status == 400
            async with session.post(f"{host.url_prefix}/x", data=b"{}", ssl=context) as response:
                assert response.status == 404
        assert 'controller_runtime_reconcile_total{controller="notary",result="success"} 1' in text
    finally:
        await manager.stop()
        for sock in sockets:
            sock.close()
