# SPDX-License-Identifier: Apache-2.0
"""The ports of the controllers: health for everyone, metrics by RBAC, limits for both."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.test_embedded_manager import daemon, discovery

from rdd.api import names
from rdd.client import ApiResource, Client
from rdd.daemon.control_plane import ControlPlane
from rdd.runtime import endpoints
from rdd.runtime.metrics_access import MAX_REMEMBERED, MetricsAccess

ROLES = ApiResource(names.RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = ApiResource(
    names.RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


@asynccontextmanager
async def ports(
    tmp_path: Path, **members: Any
) -> AsyncIterator[tuple[ControlPlane, Client, int, int]]:
    async with daemon(tmp_path, "stamp", **members) as (plane, client):
        entry = (await discovery(client))["embedded"]
        yield plane, client, entry["healthPort"], entry["metricsPort"]


async def ask(port: int, path: str, *headers: str, host: str = "localhost") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{line}\r\n" for line in headers)
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    writer.write(f"{head}{lines}\r\n".encode())
    try:
        async with asyncio.timeout(120):
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        return int(head.split()[1]), body
    finally:
        writer.close()


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


async def test_health_needs_no_token_and_metrics_do(tmp_path: Path) -> None:
    async with ports(tmp_path) as (plane, _, health, metrics):
        assert await ask(health, "/healthz") == (200, "ok")
        assert await ask(health, "/readyz") == (200, "ok")
        basic = base64.b64encode(b"admin:admin").decode()
        for headers in ((), (bearer("wrong"),), (bearer(""),), (f"Authorization: Basic {basic}",)):
            status, body = await ask(metrics, "/metrics", *headers)
            assert status == 401
            assert "workqueue" not in body
        status, body = await ask(metrics, "/metrics", bearer(plane.tokens["root"]))
        assert status == 200
        assert 'workqueue_depth{name="stamp"}' in body


async def test_rbac_decides_who_reads_metrics(tmp_path: Path) -> None:
    async with ports(tmp_path) as (plane, client, _, metrics):
        token = bearer(plane.tokens["user"])
        assert (await ask(metrics, "/metrics", token))[0] == 403
        rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
        await client.create(ROLES, {"metadata": {"name": "metrics"}, "rules": [rule]})
        subject = {"kind": "User", "name": "user", "apiGroup": names.RBAC_GROUP}
        reference = {"apiGroup": names.RBAC_GROUP, "kind": "ClusterRole", "name": "metrics"}
        binding = {"metadata": {"name": "m"}, "subjects": [subject], "roleRef": reference}
        await client.create(BINDINGS, binding)
        access = MetricsAccess(client)
        assert await access.status(token.partition(": ")[2]) == 200
        assert await access.status("Bearer wrong") == 401


async def test_flag_opens_the_metrics(tmp_path: Path) -> None:
    async with ports(tmp_path, has_open_metrics=True) as (_, _, _, metrics):
        status, body = await ask(metrics, "/metrics")
        assert status == 200
        assert "workqueue_depth" in body


async def test_other_names_are_misdirected(tmp_path: Path) -> None:
    async with ports(tmp_path, has_open_metrics=True) as (_, _, health, metrics):
        for port, path in ((health, "/healthz"), (metrics, "/metrics")):
            assert (await ask(port, path, host="evil.example"))[0] == 421


async def test_reason_for_not_being_ready_is_not_shown(tmp_path: Path) -> None:
    async with ports(tmp_path) as (plane, _, health, _):
        plane.embedded.manager._is_stopping = True
        assert await ask(health, "/readyz") == (500, "not ready\n")
        plane.embedded.manager._is_stopping = False


async def test_idle_connections_make_room_for_others(tmp_path: Path) -> None:
    async with ports(tmp_path) as (_, _, health, _):
        held = [
            await asyncio.open_connection("127.0.0.1", health)
            for _ in range(endpoints.MAX_CONNECTIONS * 3)
        ]
        assert await ask(health, "/healthz") == (200, "ok")
        for _, writer in held:
            writer.close()


async def test_slow_head_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "HEAD_S", 0.1)
    monkeypatch.setattr(endpoints, "IDLE_S", 0.1)
    async with ports(tmp_path) as (_, _, health, metrics):
        for port in (health, metrics):
            for sent in (b"GET /he", b""):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                async with asyncio.timeout(120):
                    await reader.read()  # until the server closes the connection
                writer.close()


async def test_answers_are_remembered_for_a_moment_and_are_few(tmp_path: Path) -> None:
    async with ports(tmp_path) as (plane, client, _, _):
        now = 0.0
        access = MetricsAccess(client, clock=lambda: now)
        root = f"bearer {plane.tokens['root']}"
        assert await access.status(root) == 200
        before = plane.tokens["root"]
        plane.server.replace_tokens({})
        assert await access.status(root) == 200
        now = 11.0
        assert await access.status(root) == 401
        for number in range(MAX_REMEMBERED * 3):
            await access.status(f"Bearer {number}")
        assert len(access._remembered) <= MAX_REMEMBERED
        assert before.encode() not in b"".join(access._remembered)
