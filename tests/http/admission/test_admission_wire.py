# SPDX-License-Identifier: Apache-2.0
"""Webhooks over HTTPS on loopback: certificates, timeouts, status codes and invalid responses."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
import pytest
import trustme
from aiohttp import web
from tests.http.admission.admission_world import World, add, patch_of, respond, webhook

from rdd.apiserver.admission import client

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpsWebhook:
    """A web server with a certificate of its own authority."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.requests: list[web.Request] = []
        self.connections: set[object] = set()
        self.handle: Handle = self.allow
        self.port = 0

    @staticmethod
    async def allow(request: web.Request) -> web.StreamResponse:
        return web.json_response(respond(orjson.loads(await request.read())))

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.connections.add(request.transport)
        return await self.handle(request)

    async def start(self) -> web.AppRunner:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1").configure_cert(context)
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._dispatch)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        return runner

    def client_config(
        self, authority: trustme.CA | None = None, path: str = "/hook"
    ) -> dict[str, str]:
        pem = (authority or self.authority).cert_pem.bytes()
        return {
            "url": f"https://127.0.0.1:{self.port}{path}",
            "caBundle": base64.b64encode(pem).decode(),
        }


@pytest.fixture
async def https() -> AsyncIterator[HttpsWebhook]:
    server = HttpsWebhook()
    runner = await server.start()
    yield server
    await runner.cleanup()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await World.open()
    yield world
    await world.server.close()


def failure(message: str) -> str:
    """Return the text after `failed to call webhook: `."""
    prefix = (
        'Internal error occurred: failed calling webhook "h.example.com": failed to call webhook: '
    )
    assert message.startswith(prefix), message
    return message.removeprefix(prefix)


async def test_a_webhook_receives_json_with_its_timeout_and_can_patch(
    world: World, https: HttpsWebhook
) -> None:
    async def mutate(request: web.Request) -> web.StreamResponse:
        review = orjson.loads(await request.read())
        return web.json_response(respond(review, **patch_of(add("/data", {"k": "v"}))))

    https.handle = mutate
    await world.mutating("m", webhook("h", https.client_config(), timeoutSeconds=7))
    reply = await world.config_map()
    assert reply.body["data"] == {"k": "v"}
    (request,) = https.requests
    assert (request.method, request.path_qs) == ("POST", "/hook?timeout=7s")
    assert request.content_type == "application/json"


async def test_connections_are_reused_and_reopened(world: World, https: HttpsWebhook) -> None:
    await world.validating("v", webhook("h", https.client_config()))
    for name in ("a", "b", "c"):
        assert (await world.config_map(name)).status == 201
    assert len(https.connections) == 1
    for transport in list(https.connections):
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
    assert (await world.config_map("d")).status == 201


async def test_only_the_bundle_of_a_webhook_is_trusted(world: World, https: HttpsWebhook) -> None:
    await world.validating("v", webhook("h", https.client_config(trustme.CA())))
    reply = await world.config_map()
    assert failure(reply.message) == (
        f'Post "https://127.0.0.1:{https.port}/hook?timeout=10s": tls: failed to verify '
        "certificate: x509: certificate signed by unknown authority"
    )
    assert https.requests == []


async def test_without_a_bundle_the_authorities_of_the_system_are_used(
    world: World, https: HttpsWebhook
) -> None:
    await world.validating("v", webhook("h", {"url": https.client_config()["url"]}))
    reply = await world.config_map()
    assert "certificate signed by unknown authority" in failure(reply.message)


@pytest.mark.parametrize("bundle", ["bm90IGEgY2VydGlmaWNhdGU=", "AAAA"])
async def test_a_bundle_without_certificates_fails_the_call(
    world: World, https: HttpsWebhook, bundle: str
) -> None:
    await world.validating("v", webhook("h", {**https.client_config(), "caBundle": bundle}))
    reply = await world.config_map()
    assert "unable to load root certificates" in failure(reply.message)


async def test_connection_refused_is_reported_with_the_text_of_go(
    world: World, unused_tcp_port: int
) -> None:
    url = f"https://127.0.0.1:{unused_tcp_port}/dead"
    await world.validating("v", webhook("h", {"url": url}))
    reply = await world.config_map()
    assert reply.status == 500
    assert failure(reply.message) == (
        f'Post "{url}?timeout=10s": dial tcp 127.0.0.1:{unused_tcp_port}: '
        "connect: connection refused"
    )


async def test_a_slow_webhook_times_out(world: World, https: HttpsWebhook) -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    https.handle = slow
    await world.validating("v", webhook("h", https.client_config(), timeoutSeconds=1))
    reply = await world.config_map()
    released.set()
    assert len(https.requests) == 1
    assert failure(reply.message).endswith('?timeout=1s": context deadline exceeded')


def raw(status: int, text: str | bytes, **headers: str) -> Handle:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = text.encode() if isinstance(text, str) else text
        return web.Response(status=status, body=body, headers=headers)

    return handle


@pytest.mark.parametrize(
    ("handle", "wanted"),
    [
        pytest.param(
            raw(500, "boom"),
            'an error on the server ("boom") has prevented the request from succeeding',
            id="error-500",
        ),
        pytest.param(raw(404, "no"), "the server could not find the requested resource", id="404"),
        pytest.param(
            raw(302, "", Location="https://example.com/"),
            "the server responded with the status code 302 but did not return more information",
            id="redirect",
        ),
        pytest.param(raw(200, ""), "0-length response with status code: 200", id="empty"),
        pytest.param(
            raw(200, "nope"),
            "couldn't get version/kind; json parse error: invalid character 'o' in literal null "
            "(expecting 'u')",
            id="no-json",
        ),
        pytest.param(
            raw(200, b"\x1f\x8b\x08\x00", **{"Content-Encoding": "gzip"}),
            "couldn't get version/kind; json parse error: "
            r"invalid character '\x1f' looking for beginning of value",
            id="compressed",
        ),
        pytest.param(
            raw(200, b" " * (client.MAX_RESPONSE_BYTES + 1)),
            "the response is larger than 4194304 bytes",
            id="too-large",
        ),
        pytest.param(
            raw(200, "[" * 100_000),
            "invalid character '[' exceeded max depth",
            id="too-deep",
        ),
        pytest.param(raw(200, "[]"), "json: cannot unmarshal array", id="no-object"),
    ],
)
async def test_responses_that_are_no_reviews_fail_the_call(
    world: World, https: HttpsWebhook, handle: Handle, wanted: str
) -> None:
    https.handle = handle
    await world.validating("v", webhook("h", https.client_config()))
    reply = await world.config_map()
    assert reply.status == 500
    assert wanted in failure(reply.message)


async def test_an_endless_response_is_aborted(world: World, https: HttpsWebhook) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
                sent += 65536
        except ConnectionError:
            return response

    https.handle = endless
    await world.validating("v", webhook("h", https.client_config()))
    reply = await world.config_map()
    assert "the response is larger than" in failure(reply.message)
    assert sent < 4 * client.MAX_RESPONSE_BYTES


async def test_a_closed_connection_is_an_eof(world: World, https: HttpsWebhook) -> None:
    async def drop(request: web.Request) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.Transport)
        request.transport.abort()
        return web.Response()

    https.handle = drop
    await world.validating("v", webhook("h", https.client_config()))
    assert failure((await world.config_map()).message).endswith(": EOF")


async def test_the_older_review_version_is_supported(world: World, https: HttpsWebhook) -> None:
    async def old(request: web.Request) -> web.StreamResponse:
        review = orjson.loads(await request.read())
        assert review["apiVersion"] == "admission.k8s.io/v1beta1"
        patch = patch_of(add("/data", {"k": "v"}))["patch"]
        # This version checks neither uid nor kind nor patchType.
        return web.json_response({"response": {"allowed": True, "patch": patch}})

    https.handle = old
    hook = webhook("h", https.client_config())
    await world.mutating("m", {**hook, "admissionReviewVersions": ["v2", "v1beta1", "v1"]})
    assert (await world.config_map()).body["data"] == {"k": "v"}


async def test_closing_twice_is_harmless(world: World, https: HttpsWebhook) -> None:
    await world.validating("v", webhook("h", https.client_config()))
    await world.config_map()
    await world.server.close()
