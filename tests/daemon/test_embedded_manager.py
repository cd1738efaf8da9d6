# SPDX-License-Identifier: Apache-2.0
"""The daemon's own controllers: registration, admission, drain, failures."""

import asyncio
import json
import logging
import re
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.composed import ENTRIES

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.http.request import Request
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.daemon.control_plane import ControlPlane, Report
from rdd.daemon.credentials import ADMIN
from rdd.daemon.options import ServeOptions
from rdd.daemon.readiness import VALIDATING_WEBHOOKS
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import State
from rdd.daemon.stages import control_plane
from rdd.instance import Instance
from rdd.runtime.controller import Workers


async def unreported(state: State, step: str) -> None: ...


@asynccontextmanager
async def daemon(
    home: Path, controllers: str, report: Report = unreported, **members: Any
) -> AsyncIterator[tuple[ControlPlane, Client]]:
    options = ServeOptions(secure_port=0, controllers=controllers, entries=ENTRIES, **members)
    async with control_plane(Instance("2", home), options, report=report) as running:
        transport = LocalTransport(running.server.handle, partial(Request, user=ADMIN))
        yield running, Client(transport)


async def discovery(client: Client) -> Object:
    found = await client.get(
        CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
    )
    return {key: json.loads(text) for key, text in (found.get("data") or {}).items()}


def config_map(name: str, **members: Any) -> Object:
    labels = members.pop("labels", {})
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, **members}


async def get(client: Client, name: str) -> Object:
    return await client.get(CONFIG_MAPS, name, namespace="default")


async def test_manager_is_registered_in_the_documented_format(tmp_path: Path) -> None:
    async with daemon(tmp_path, "stamp,guard,slow") as (plane, client):
        entry = (await discovery(client))["embedded"]
        health, metrics = entry["healthPort"], entry["metricsPort"]
        assert list(entry) == [
            "healthPort",
            "metricsPort",
            "enabledControllers",
            "enabledPassthroughs",
            "startTime",
            "healthEndpoint",
            "metricsEndpoint",
            "passthroughEndpoint",
        ]
        assert entry["enabledControllers"] == ["stamp", "guard", "slow"]
        assert entry["enabledPassthroughs"] == {}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["startTime"])
        assert entry["healthEndpoint"] == f"http://localhost:{health}/healthz"
        assert entry["metricsEndpoint"] == f"http://localhost:{metrics}/metrics"
        lease = await client.get(LEASES, "controller-stamp", namespace=names.SYSTEM_NAMESPACE)
        assert lease["spec"]["holderIdentity"].startswith("embedded-")
        assert await asyncio.to_thread(read, f"http://127.0.0.1:{health}/readyz") == "ok"
        url = f"http://127.0.0.1:{metrics}/metrics"
        text = await asyncio.to_thread(read, url, plane.tokens["root"])
        assert 'workqueue_depth{name="stamp"}' in text


def read(url: str, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: bytes = answer.read()
    return found.decode()


async def test_manager_without_controllers_is_registered_with_null(tmp_path: Path) -> None:
    async with daemon(tmp_path, "") as (_, client):
        assert (await discovery(client))["embedded"]["enabledControllers"] is None


async def test_busy_ports_are_replaced_by_free_ones(tmp_path: Path) -> None:
    ports = Instance("2", tmp_path).ports
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", ports.embedded_health))
            taken.listen()
        except OSError:
            pass  # busy, as required
        async with daemon(tmp_path, "") as (_, client):
            entry = (await discovery(client))["embedded"]
            assert entry["healthPort"] != ports.embedded_health
            assert await asyncio.to_thread(read, entry["healthEndpoint"]) == "ok"


async def test_first_write_after_the_start_is_admitted_and_reconciled(tmp_path: Path) -> None:
    variables = {"STAMP": "mine"}
    async with daemon(tmp_path, "*,-broken,-fragile", environment=variables) as (_, client):
        labels = {"guarded": "yes", "stamp": ""}
        await client.create(CONFIG_MAPS, config_map("good", labels=labels))
        async for event in client.list_and_watch(
            CONFIG_MAPS, namespace="default", field_selector="metadata.name=good"
        ):
            if event.object.get("data", {}).get("stamp") == "mine":
                break
        bad = config_map("bad", labels=labels, data={"bad": "x"})
        with pytest.raises(errors.Forbidden, match="that is bad"):
            await client.create(CONFIG_MAPS, bad)


async def test_recursive_handler_is_stopped(tmp_path: Path) -> None:
    async with daemon(tmp_path, "guard") as (_, client):
        endless = config_map("a", labels={"guarded": "yes"}, data={"nested": "x"})
        with pytest.raises(errors.ApiError) as refused:
            await client.create(CONFIG_MAPS, endless)
        assert "admission has nested more than 8 requests" in refused.value.message


async def test_writes_during_the_drain_are_kept_and_the_stop_is_in_order(tmp_path: Path) -> None:
    order: list[str] = []
    handles: list[Any] = []

    async def report(state: State, step: str) -> None:
        if state < State.STOPPING:
            return
        order.append(step)
        if step in ("drain", "deregister"):  # the API is up for both
            client = Client(LocalTransport(handles[0], partial(Request, user=ADMIN)))
            present = {c["metadata"]["name"] for c in (await client.list(CONFIG_MAPS)).items}
            leases = await client.list(LEASES, namespace=names.SYSTEM_NAMESPACE)
            order.append("stopped" if "stopped" in present else "running")
            held = [lease["spec"].get("holderIdentity") for lease in leases.items]
            order.append("owned" if any(held) else "free")
            order.append("listed" if "embedded" in await discovery(client) else "unlisted")

    async with daemon(tmp_path, "slow", report) as (running, _):
        handles.append(running.server.handle)
    drain = ["drain", "running", "owned", "listed"]
    assert order == [*drain, "deregister", "stopped", "owned", "listed", "api", "store"]
    async with daemon(tmp_path, "") as (_, client):
        assert await get(client, "stopping")
        assert await get(client, "stopped")
        lease = await client.get(LEASES, "controller-slow", namespace=names.SYSTEM_NAMESPACE)
        assert not lease["spec"].get("holderIdentity")


async def test_rejected_definition_fails_the_start_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ServiceError) as failed:
        async with daemon(tmp_path, "broken,stamp"):
            pass
    text = str(failed.value)
    assert text.startswith("the controllers could not be started: ")
    assert "things.example.com" in text
    assert "\n" not in text
    async with daemon(tmp_path, "stamp") as (_, client):  # the failed start left nothing behind
        assert (await discovery(client))["embedded"]["enabledControllers"] == ["stamp"]


async def test_error_in_a_controller_fails_the_start_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="the fragile one is broken"):
        async with daemon(tmp_path, "fragile"):
            pass


async def test_controller_that_ends_later_fails_the_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    run = Workers.run

    async def until_told(self: Workers, *arguments: Any, **options: Any) -> None:
        working = asyncio.ensure_future(run(self, *arguments, **options))
        await ended.wait()
        working.cancel()
        raise RuntimeError("it broke")

    monkeypatch.setattr(Workers, "run", until_told)
    async with daemon(tmp_path, "stamp") as (running, _):
        ended.set()
        failure = await asyncio.wait_for(running.failure, 120)
        assert str(failure) == "it broke"


async def test_stale_webhooks_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with daemon(tmp_path, "guard"):
        pass
    foreign = {
        "metadata": {"name": "foreign"},
        "webhooks": [
            {
                "name": "foreign.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/x"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    }
    async with daemon(tmp_path, "guard") as (_, client):
        await client.create(VALIDATING_WEBHOOKS, foreign)
        bad = config_map("bad", labels={"guarded": "yes"}, data={"bad": "x"})
        with pytest.raises(errors.Forbidden, match="that is bad"):
            await client.create(CONFIG_MAPS, bad)
    with caplog.at_level(logging.INFO, "rdd.daemon"):
        async with daemon(tmp_path, "stamp") as (_, client):
            await client.create(CONFIG_MAPS, bad)
            left = (await client.list(VALIDATING_WEBHOOKS)).items
            assert [w["metadata"]["name"] for w in left] == ["foreign"]
    assert "removed stale webhooks: guard" in caplog.text


async def test_incomplete_selection_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path, "stamp"):
        pass
    lines = [
        r.message for r in caplog.records if r.name == "rdd.daemon" and r.levelname == "WARNING"
    ]
    assert lines == ["controller stamp has limited functionality without guard"]


async def test_daemon_does_not_run_the_mock(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="unknown controllers: pretend; valid are"):
        async with daemon(tmp_path, "pretend"):
            pass
