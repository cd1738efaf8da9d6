# SPDX-License-Identifier: Apache-2.0
"""Passthrough requests are routed to external programs while they are registered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rdd.api import names
from rdd.client import Call, Client
from rdd.client.https import HttpsTransport
from rdd.client.resources import SECRETS
from rdd.daemon.control_plane import ControlPlane
from rdd.daemon.managers import passthrough_backends
from rdd.daemon.managers.discovery import DiscoveryMap
from rdd.daemon.managers.registration import Registration
from rdd.daemon.options import ServeOptions
from rdd.daemon.stages import control_plane
from rdd.host.sockets import listen_on_loopback
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.instance import Instance
from rdd.runtime import HttpPassthrough

PATH = "/passthrough/demo/hello/there"


async def hello(exchange: Exchange, rest: str) -> Response | None:
    return Response.text(f"hello {rest}")


@asynccontextmanager
async def daemon(home: Path) -> AsyncIterator[tuple[ControlPlane, Client]]:
    instance = Instance("2", home)
    options = ServeOptions(secure_port=0, controllers="")
    async with (
        control_plane(instance, options) as running,
        Client(HttpsTransport.from_file(instance.config)) as client,
    ):
        yield running, client


@asynccontextmanager
async def program() -> AsyncIterator[HttpPassthrough]:
    host = HttpPassthrough(listen_on_loopback(0), secret="s3cret")
    await host.start()
    host.add("demo", "hello", hello)
    try:
        yield host
    finally:
        await host.stop()


def entry(url: str) -> str:
    return Registration(
        1, 2, controllers=["demo"], passthroughs={"demo": ["hello"]}, passthrough_endpoint=url
    ).text()


async def ask(client: Client) -> tuple[int, str]:
    reply = await client.transport.request(Call("GET", PATH))
    return reply.status, reply.body.decode()


async def until(client: Client, status: int) -> str:
    async with asyncio.timeout(120):
        while True:
            found, body = await ask(client)
            if found == status:
                return body
            await asyncio.sleep(0.01)


async def test_program_is_routed_while_it_is_registered(tmp_path: Path) -> None:
    async with daemon(tmp_path) as (_, client), program() as host:
        assert (await ask(client))[0] == 404
        await passthrough_backends.publish(client, "app", url=host.url, secret=host.secret)
        directory = DiscoveryMap(client)
        await directory.register("app", entry(host.url))
        assert await until(client, 200) == "hello /there"
        await directory.deregister("app", entry(host.url))
        assert "the controller is not running" in await until(client, 503)


async def test_restarted_program_is_routed_to_its_new_port(tmp_path: Path) -> None:
    async with daemon(tmp_path) as (_, client):
        directory = DiscoveryMap(client)
        for _ in range(2):  # the first one crashes without cleanup
            async with program() as host:
                await passthrough_backends.publish(client, "app", url=host.url, secret=host.secret)
                await directory.register("app", entry(host.url))
                assert await until(client, 200) == "hello /there"
            assert (await ask(client))[0] == 503


@pytest.mark.parametrize("url", ["http://example.com:1/", "http://localhost:1/"])
async def test_credential_is_sent_to_the_program_only(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as (_, client), program() as host:
        published = url if "example" in url else host.url
        await passthrough_backends.publish(client, "app", url=published, secret=host.secret)
        await DiscoveryMap(client).register("app", entry(url))
        async with asyncio.timeout(120):
            while "is not its port" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await ask(client))[0] == 404


async def test_malformed_entry_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with daemon(tmp_path) as (running, client), program() as host:
        await DiscoveryMap(client).register("a-bad-one", '{"enabledPassthroughs": 7}')
        await DiscoveryMap(client).register("without-secret", entry(host.url))
        await passthrough_backends.publish(client, "app", url=host.url, secret=host.secret)
        await DiscoveryMap(client).register("app", entry(host.url))
        assert await until(client, 200) == "hello /there"
        assert not running.failure.done()
    assert "the entry of a-bad-one in the discovery ConfigMap is malformed" in caplog.text


async def test_only_the_own_credential_is_withdrawn(tmp_path: Path) -> None:
    async with daemon(tmp_path) as (_, client):
        await passthrough_backends.publish(client, "app", url="http://localhost:1/", secret="old")
        await passthrough_backends.publish(client, "app", url="http://localhost:2/", secret="new")
        await passthrough_backends.withdraw(client, "app", secret="old")
        assert (await client.list(SECRETS, namespace=names.SYSTEM_NAMESPACE)).items
        await passthrough_backends.withdraw(client, "app", secret="new")
        await passthrough_backends.withdraw(client, "app", secret="new")
        assert not (await client.list(SECRETS, namespace=names.SYSTEM_NAMESPACE)).items
