# SPDX-License-Identifier: Apache-2.0
"""Where admission handlers answer: in the server's process, or on a port.

A host says at which URL its handlers are reached; configurations with that URL
are applied only after it answers, so no write fails for want of a handler that
is about to start. In-process URLs contain something only this run knows: a
configuration of an earlier run never reaches a stranger.
"""

import asyncio
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.admission import Reviewer, Webhook

FIELD_MANAGER = "rdd-webhook-manager"
MAX_BODY_BYTES = 8 * 1024 * 1024

_CONFIGURATIONS = {
    type_: ApiResource(
        names.ADMISSION_GROUP,
        "v1",
        f"{type_}webhookconfigurations",
        f"{type_.capitalize()}WebhookConfiguration",
        namespaced=False,
    )
    for type_ in ("validating", "mutating")
}


class Host(Protocol):
    """A place where AdmissionReviews arrive."""

    url_prefix: str
    """What the URLs of all webhooks begin with; no slash at the end."""
    ca_bundle: str
    """PEM of the authorities that vouch for it; empty if nobody asks."""

    async def start(self, reviewer: Reviewer) -> None:
        """Answer with a reviewer; it is reachable when this returns."""
        ...

    def add(self, webhook: Webhook) -> None:
        """Answer at the URL of a webhook, which the reviewer knows."""
        ...

    def remove(self, webhook: Webhook) -> None:
        """Do so no more."""
        ...

    async def stop(self) -> None:
        """Answer no more."""
        ...


class Endpoints(Protocol):
    """The handlers a server calls without a socket, by the prefix of their URL."""

    def register(
        self, url_prefix: str, handler: Callable[[Object, Any], Awaitable[Object]], /
    ) -> None:
        """Call a handler for every URL below a prefix."""
        ...

    def unregister(self, url_prefix: str, /) -> None:
        """Do so no more."""
        ...


class InProcessHost:
    """Handlers called by the server of this process.

    `address` is the server's own host:port; nobody connects to it for this.
    """

    ca_bundle = ""

    def __init__(self, endpoints: Endpoints, *, address: str = "127.0.0.1:6443") -> None:
        self._endpoints = endpoints
        self.url_prefix = f"https://{address}/{secrets.token_hex(8)}"
        self._reviewer: Reviewer | None = None

    async def start(self, reviewer: Reviewer) -> None:
        """Nothing is called before a webhook is added: handlers do not see their URL."""
        self._reviewer = reviewer

    def add(self, webhook: Webhook) -> None:
        """Answer at the URL of a webhook."""
        reviewer, path = self._reviewer, webhook.path
        assert reviewer is not None

        async def handle(review: Object, request: Any) -> Object:
            return await reviewer.review(path, review)

        self._endpoints.register(f"{self.url_prefix}/{path}", handle)

    def remove(self, webhook: Webhook) -> None:
        """Do so no more."""
        self._endpoints.unregister(f"{self.url_prefix}/{webhook.path}")

    async def stop(self) -> None:
        """Nothing is left to do when all webhooks are removed."""
        self._reviewer = None


class HttpsHost:
    """Handlers on a socket that is bound already, with a certificate that is passed in."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        *,
        ca_bundle: str,
        host: str = "127.0.0.1",
    ) -> None:
        self._socket = sock
        self._tls = tls
        self.ca_bundle = ca_bundle
        self.url_prefix = f"https://{host}:{sock.getsockname()[1]}"
        self._runner: Any = None

    async def start(self, reviewer: Reviewer) -> None:
        """Listen."""
        from aiohttp import web

        async def answer(request: web.Request) -> web.Response:
            path = request.match_info["path"]
            if not reviewer.knows(path):
                return web.Response(status=404, text="404 page not found\n")
            try:
                review = orjson.loads(await request.read())
                answered = await reviewer.review(path, review)
            except (orjson.JSONDecodeError, KeyError, TypeError, AssertionError) as error:
                return web.Response(status=400, text=f"not an AdmissionReview: {error}\n")
            return web.Response(body=orjson.dumps(answered), content_type="application/json")

        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/{path}", answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, ssl_context=self._tls).start()

    def add(self, webhook: Webhook) -> None:
        """The path alone decides; the reviewer knows it."""

    def remove(self, webhook: Webhook) -> None:
        """The reviewer forgets it."""

    async def stop(self) -> None:
        """Close the socket; requests under way get a moment."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        self._socket.close()


async def apply_configuration(
    client: Client, webhook: Webhook, *, url_prefix: str, ca_bundle: str
) -> None:
    """Have the server ask a webhook, whatever its configuration was before."""
    await client.apply(
        _CONFIGURATIONS[webhook.type],
        webhook.configuration(url_prefix, ca_bundle),
        field_manager=FIELD_MANAGER,
        force=True,
    )


async def apply_configurations(
    client: Client, webhooks: tuple[Webhook, ...], *, url_prefix: str, ca_bundle: str
) -> None:
    """Apply several at the same time; the first failure is raised."""
    async with asyncio.TaskGroup() as group:
        for webhook in webhooks:
            group.create_task(
                apply_configuration(client, webhook, url_prefix=url_prefix, ca_bundle=ca_bundle),
                name=f"rdd-webhook {webhook.name}",
            )


async def remove_configurations(client: Client, is_obsolete: Callable[[Object], bool]) -> list[str]:
    """Remove configurations that we have applied; returns their names.

    `is_obsolete` is asked with the `clientConfig` of each. One that somebody
    applies anew at the same time stays.
    """
    removed: list[str] = []
    for resource in _CONFIGURATIONS.values():
        for found in (await client.list(resource)).items:
            metadata = found["metadata"]
            managers = {entry.get("manager") for entry in metadata.get("managedFields") or ()}
            webhooks = found.get("webhooks") or ()
            if FIELD_MANAGER not in managers or not webhooks:
                continue
            if all(is_obsolete(webhook["clientConfig"]) for webhook in webhooks):
                version = metadata["resourceVersion"]
                try:
                    await client.delete(resource, metadata["name"], resource_version=version)
                    removed.append(metadata["name"])
                except (errors.NotFound, errors.Conflict):
                    pass
    return removed
