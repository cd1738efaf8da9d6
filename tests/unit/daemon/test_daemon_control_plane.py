# SPDX-License-Identifier: Apache-2.0
"""The control plane in this process: stages, readiness, certificates, idle timeout."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from rdd.api import names
from rdd.apiserver.auth import certificates
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import (
    AnyResponse,
    Hijack,
    Request,
    Response,
    ResponseWriter,
    Stream,
)
from rdd.apiserver.server import ApiServer
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from rdd.daemon import readiness, renewal
from rdd.daemon.control_plane import ControlPlane
from rdd.daemon.credentials import ADMIN
from rdd.daemon.idle_timeout import IdleTracker
from rdd.daemon.managers.discovery import CONFIG_MAP_PATH, DiscoveryMap
from rdd.daemon.options import ServeOptions
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import State
from rdd.daemon.stages import control_plane
from rdd.http.exchange import Exchange
from rdd.instance import Instance

OPTIONS = ServeOptions(secure_port=0)


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance("2", tmp_path)


@pytest.fixture
async def running(instance: Instance) -> AsyncIterator[ControlPlane]:
    async with control_plane(instance, OPTIONS) as found:
        yield found


def client_of(running: ControlPlane) -> Client:
    return Client(LocalTransport(running.server.handle, partial(Request, user=ADMIN)))


def get(path: str) -> Request:
    return Request("GET", path, headers={}, user=ADMIN)


async def annotations(client: Client) -> dict[str, str]:
    found = await client.get(
        CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
    )
    value: dict[str, str] = found["metadata"].get("annotations") or {}
    return value


async def test_stages_are_reported_in_order_and_the_kubeconfig_exists_while_the_api_is_served(
    instance: Instance,
) -> None:
    steps: list[tuple[State, str, bool]] = []

    async def report(state: State, step: str) -> None:
        steps.append((state, step, instance.config.exists()))

    async with control_plane(instance, OPTIONS, report=report):
        pass
    assert steps == [
        (State.STARTING, "store", False),
        (State.STARTING, "certificates", False),
        (State.STARTING, "server", False),
        (State.STARTING, "listen", False),
        (State.SERVING, "register", True),
        (State.SERVING, "controllers", True),
        (State.REGISTERED, "requirements", True),
        (State.READY, "", True),
        (State.STOPPING, "drain", True),
        (State.STOPPING, "deregister", True),
        (State.STOPPING, "api", False),
        (State.STOPPING, "store", False),
    ]


async def test_discovery_has_the_documented_format(running: ControlPlane) -> None:
    client = client_of(running)
    found = await client.get(
        CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
    )
    assert found["metadata"]["labels"] == {
        "app.kubernetes.io/name": "rancher-desktop-daemon",
        "app.kubernetes.io/component": "controller-manager",
    }
    assert found["metadata"]["annotations"] == {names.READY: "true"}
    namespace = await client.get(NAMESPACES, names.SYSTEM_NAMESPACE)
    assert namespace["metadata"]["labels"]["app.kubernetes.io/name"] == "rancher-desktop-daemon"


async def test_discovery_is_recreated_at_each_start(instance: Instance) -> None:
    uids = []
    for _ in range(2):
        async with control_plane(instance, OPTIONS) as running:
            found = await client_of(running).get(
                CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
            )
            uids.append(found["metadata"]["uid"])
    assert len(set(uids)) == 2


async def test_discovery_of_a_crashed_run_is_deleted_before_the_port_is_served(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = Instance("3", tmp_path)
    async with control_plane(instance, OPTIONS) as running:
        crashed.database.parent.mkdir(parents=True)
        for path in instance.database.parent.glob("state.db*"):
            shutil.copy(path, crashed.database.parent)
        assert names.READY in await annotations(client_of(running))
    seen: list[bool] = []
    listen = HttpServer.listen

    async def looking(self: HttpServer, *arguments: Any) -> None:
        found = await self.api.handle(get(CONFIG_MAP_PATH))
        seen.append(found.status == 200)
        await listen(self, *arguments)

    monkeypatch.setattr(HttpServer, "listen", looking)
    async with control_plane(crashed, OPTIONS) as running:
        assert names.READY in await annotations(client_of(running))
    assert seen == [False]


async def test_readiness_survives_a_deleted_config_map(running: ControlPlane) -> None:
    client = client_of(running)
    directory = DiscoveryMap(client)
    await client.delete(CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE)
    await directory.set_ready(ready=False)
    await directory.set_ready(ready=True)
    assert await annotations(client) == {names.READY: "true"}


async def test_readyz_fails_while_stopping(instance: Instance) -> None:
    servers: list[ApiServer] = []
    answers: list[int] = []

    async def report(state: State, step: str) -> None:
        if step == "drain":
            answers.append((await servers[0].handle(get("/readyz"))).status)

    async with control_plane(instance, OPTIONS, report=report) as running:
        servers.append(running.server)
        answers.append((await running.server.handle(get("/readyz"))).status)
    assert answers == [200, 500]


async def test_unknown_controllers_are_rejected_before_any_write(
    instance: Instance,
) -> None:
    for options in (
        ServeOptions(secure_port=0, builtin_controllers="nope"),
        ServeOptions(secure_port=0, controllers="nope"),
    ):
        with pytest.raises(ServiceError, match="nope"):
            async with control_plane(instance, options):
                pass
    assert not instance.dir.exists()


async def test_second_control_plane_on_the_same_store_is_rejected(
    instance: Instance, running: ControlPlane
) -> None:
    with pytest.raises(ServiceError, match="is in use by another process"):
        async with control_plane(instance, OPTIONS):
            pass


async def test_only_the_first_failing_part_is_reported(
    running: ControlPlane,
) -> None:
    running.fail(ValueError("a"))
    running.fail(ValueError("b"))
    assert str(running.failure.result()) == "a"


# -- readiness


CRD: dict[str, Any] = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


async def test_requirements_are_waited_for(running: ControlPlane) -> None:
    client = client_of(running)
    passed = asyncio.Event()

    async def check() -> None:
        await passed.wait()

    waiting = asyncio.create_task(
        readiness.wait(
            client,
            readiness.Requirements(
                definitions=["things.example.com"],
                validating_webhooks=["guard"],
                checks=[check],
            ),
        )
    )
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, CRD)
    await client.create(readiness.VALIDATING_WEBHOOKS, {"metadata": {"name": "guard"}})
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    passed.set()
    await asyncio.wait_for(waiting, 120)


async def test_no_requirements_are_met_immediately(running: ControlPlane) -> None:
    await readiness.wait(client_of(running), readiness.Requirements())


# -- certificates


async def test_certificates_are_renewed_while_running(tmp_path: Path) -> None:
    first = certificates.ensure_serving(tmp_path)
    later = [0.0]
    used: list[certificates.Issued] = []
    renewed = asyncio.Event()

    def ensure() -> certificates.Issued:
        if not used:
            later[0] = 400 * 86400
        return certificates.ensure_serving(tmp_path, now=lambda: time.time() + later[0])

    def use(issued: certificates.Issued) -> None:
        used.append(issued)
        renewed.set()

    task = asyncio.create_task(renewal.keep_renewed(first, ensure, use, interval_s=0.001))
    await asyncio.wait_for(renewed.wait(), 120)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(used) == 1
    assert used[0].pair != first.pair


# -- idle timeout


class FakeApi:
    """Responds immediately, or with a stream that ends when `open` is set."""

    def __init__(self) -> None:
        self.metrics = ServerMetrics()
        self.open = asyncio.Event()

    async def handle(self, request: Request) -> AnyResponse:
        if request.path == "/watch":
            return Stream(self.produce)
        if request.path.startswith("/passthrough/"):
            return Hijack(self.serve)
        return Response(200, b"")

    async def produce(self, writer: ResponseWriter) -> None:
        await self.open.wait()

    async def serve(self, exchange: Exchange) -> None:
        await self.open.wait()


async def test_idle_after_the_last_request(tmp_path: Path) -> None:
    tracker = IdleTracker(FakeApi(), 0.05, tmp_path)
    await tracker.handle(get("/api/v1/namespaces"))
    await asyncio.wait_for(tracker.expired(), 120)


async def test_open_watch_counts_as_use(tmp_path: Path) -> None:
    api = FakeApi()
    tracker = IdleTracker(api, 0.02, tmp_path)
    answer = await tracker.handle(get("/watch"))
    assert isinstance(answer, Stream)
    producing = asyncio.create_task(_produce(answer))
    expiring = asyncio.create_task(tracker.expired())
    done, _ = await asyncio.wait({expiring}, timeout=0.1)
    assert not done
    api.open.set()
    await producing
    await asyncio.wait_for(expiring, 120)


async def test_open_passthrough_counts_as_use(tmp_path: Path) -> None:
    api = FakeApi()
    tracker = IdleTracker(api, 0.02, tmp_path)
    answer = await tracker.handle(get("/passthrough/c/e/"))
    assert isinstance(answer, Hijack)
    serving = asyncio.ensure_future(answer.serve(cast(Exchange, None)))
    expiring = asyncio.create_task(tracker.expired())
    done, _ = await asyncio.wait({expiring}, timeout=0.1)
    assert not done
    api.open.set()
    await serving
    await asyncio.wait_for(expiring, 120)


async def _produce(answer: Stream) -> None:
    class Nowhere:
        async def write(self, data: bytes) -> None: ...

        def push(self, data: bytes) -> bool:
            return True

        async def closed(self) -> None: ...

    await answer.produce(Nowhere())


async def test_virtual_machines_count_as_use_and_health_checks_do_not(tmp_path: Path) -> None:
    tracker = IdleTracker(FakeApi(), 0.02, tmp_path)
    agent = tmp_path / "vm" / "ha.pid"
    agent.parent.mkdir()
    agent.write_text(str(os.getpid()))
    expiring = asyncio.create_task(tracker.expired())
    done, _ = await asyncio.wait({expiring}, timeout=0.1)
    assert not done
    agent.unlink()
    for _ in range(20):
        await tracker.handle(get("/readyz"))
        await asyncio.sleep(0.005)
    await asyncio.wait_for(expiring, 120)
