# SPDX-License-Identifier: Apache-2.0
"""Hosts of admission handlers: in the process of the server, or on a port.

A host has the URL prefix of its handlers; configurations with that URL are applied only after
the host is reachable, so no write fails because of a handler that is about to start.
In-process URLs contain a random token: a configuration of an earlier run never reaches
another process.
"""

import asyncio
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource, Client
from rdd.runtime.admission import Reviewer, Webhook

if TYPE_CHECKING:
    from rdd.http.exchange import Exchange
    from rdd.http.responses import Response
    from rdd.http.server import Server

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


class WebhookHost(Protocol):
    """Receives AdmissionReviews."""

    url_prefix: str
    """Prefix of the URLs of all webhooks, without a trailing slash."""
    ca_bundle: str
    """CA certificates of the host in PEM; empty if it needs none."""

    async def start(self, reviewer: Reviewer) -> None:
        """Pass reviews to a reviewer; return when reachable."""
        ...

    def add(self, webhook: Webhook) -> None:
        """Serve the URL of a webhook that the reviewer has."""
        ...

    def remove(self, webhook: Webhook) -> None:
        """Stop serving the URL of a webhook."""
        ...

    async def stop(self) -> None:
        """Stop listening."""
        ...


class EndpointRegistry(Protocol):
    """Handlers that a server calls without a socket, by URL prefix."""

    def register(
        self, url_prefix: str, handler: Callable[[Object, Any], Awaitable[Object]], /
    ) -> None:
        """Call a handler for every URL with a prefix."""
        ...

    def unregister(self, url_prefix: str, /) -> None:
        """Remove the handler of a prefix."""
        ...


class InProcessHost:
    """Handlers that the server of this process calls.

    `address` is the host:port of the server; no connection is made to it. Servers that share
    the configurations use the same `address` and `path`, and each calls its own handlers.
    """

    ca_bundle = ""

    def __init__(
        self, endpoints: EndpointRegistry, *, address: str = "127.0.0.1:6443", path: str = ""
    ) -> None:
        self._endpoints = endpoints
        self.url_prefix = f"https://{address}/{path or secrets.token_hex(8)}"
        self._reviewer: Reviewer | None = None

    async def start(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer

    def add(self, webhook: Webhook) -> None:
        reviewer, path = self._reviewer, webhook.path
        assert reviewer is not None

        async def handle(review: Object, request: Any) -> Object:
            return await reviewer.review(path, review)

        self._endpoints.register(f"{self.url_prefix}/{path}", handle)

    def remove(self, webhook: Webhook) -> None:
        self._endpoints.unregister(f"{self.url_prefix}/{webhook.path}")

    async def stop(self) -> None:
        self._reviewer = None


class HttpsHost:
    """Handlers on a bound socket with TLS."""

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
        self._server: Server | None = None

    async def start(self, reviewer: Reviewer) -> None:
        from rdd.http.server import Server

        async def handle(exchange: "Exchange") -> None:
            (await _respond(reviewer, exchange)).send(exchange)
            await exchange.drain()

        self._server = Server(handle)
        await self._server.listen(self._socket, self._tls)

    def add(self, webhook: Webhook) -> None:
        """Do nothing: the reviewer has the path."""

    def remove(self, webhook: Webhook) -> None:
        """Do nothing: the reviewer no longer has the path."""

    async def stop(self) -> None:
        """Close the socket; open requests get one second."""
        server, self._server = self._server, None
        if server is not None:
            await server.close(timeout_s=1.0)
        self._socket.close()


async def _respond(reviewer: Reviewer, exchange: "Exchange") -> "Response":
    from rdd.http.body import BodyError, BodyPace, BodyTooLarge
    from rdd.http.responses import Response

    path = exchange.path.removeprefix("/")
    if not reviewer.has_path(path):
        return Response.text("404 page not found\n", status=404)
    if exchange.method != "POST":
        return Response.text("405 method not allowed\n", status=405, headers=[("Allow", "POST")])
    try:
        data = await exchange.body.read(limit=MAX_BODY_BYTES, pace=BodyPace())
        reviewed = await reviewer.review(path, orjson.loads(data))
    except BodyTooLarge:
        return Response.text(f"the limit of a body is {MAX_BODY_BYTES} bytes\n", status=413)
    except BodyError as error:
        return Response.text(f"the body is incomplete: {error}\n", status=400)
    except (orjson.JSONDecodeError, KeyError, TypeError, AssertionError) as error:
        return Response.text(f"not an AdmissionReview: {error}\n", status=400)
    return Response(200, orjson.dumps(reviewed))


async def apply_configuration(
    client: Client, webhook: Webhook, *, url_prefix: str, ca_bundle: str
) -> None:
    """Apply the configuration of a webhook, replacing an earlier one."""
    await client.apply(
        _CONFIGURATIONS[webhook.type],
        webhook.configuration(url_prefix, ca_bundle),
        field_manager=FIELD_MANAGER,
        force=True,
    )


async def apply_configurations(
    client: Client, webhooks: tuple[Webhook, ...], *, url_prefix: str, ca_bundle: str
) -> None:
    """Apply configurations concurrently; raise the first failure."""
    async with asyncio.TaskGroup() as group:
        for webhook in webhooks:
            group.create_task(
                apply_configuration(client, webhook, url_prefix=url_prefix, ca_bundle=ca_bundle),
                name=f"rdd-webhook {webhook.name}",
            )


async def remove_configurations(client: Client, is_obsolete: Callable[[Object], bool]) -> list[str]:
    """Delete obsolete configurations that this project has applied; return their names.

    `is_obsolete` is called with the `clientConfig` of each. A configuration that is applied
    again meanwhile is kept.
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
