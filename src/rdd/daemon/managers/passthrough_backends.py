# SPDX-License-Identifier: Apache-2.0
"""Routes of passthrough requests to the controllers of external programs.

A program with endpoints publishes their URL in the discovery ConfigMap, which many may read,
and the credential of its port in a Secret, which only administrators may read:
`rdd-system/passthrough-<program>`. The Secret is written first; an entry whose Secret is
missing or names another port gets no route. The credential is sent to local ports only.
"""

import base64
import json
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rdd.api import errors, names
from rdd.apiserver.passthrough.proxy import PassthroughBackend
from rdd.apiserver.passthrough.routing import PassthroughRoutes
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, SECRETS
from rdd.daemon.managers.discovery import EMBEDDED
from rdd.runtime.passthrough import CHALLENGE

log = logging.getLogger("rdd.daemon")

_LOOPBACK = "http://localhost:"


async def publish(client: Client, program: str, *, url: str, secret: str) -> None:
    """Publish URL and credential of a program for the daemon."""
    data = {"url": _encoded(url), "secret": _encoded(secret)}
    metadata = {"name": _name(program), "namespace": names.SYSTEM_NAMESPACE}
    wanted = {"metadata": metadata, "data": data}
    try:
        await client.create(SECRETS, wanted)
    except errors.AlreadyExists:  # left by a program that crashed
        await client.patch(
            SECRETS, _name(program), {"data": data}, namespace=names.SYSTEM_NAMESPACE
        )


async def withdraw(client: Client, program: str, *, secret: str) -> None:
    """Delete what was published unless another program of this name has replaced it."""
    try:
        found = await client.get(SECRETS, _name(program), namespace=names.SYSTEM_NAMESPACE)
        if _decoded(found, "secret") == secret:
            version = found["metadata"]["resourceVersion"]
            await client.delete(
                SECRETS, _name(program), namespace=names.SYSTEM_NAMESPACE, resource_version=version
            )
    except (errors.NotFound, errors.Conflict):
        pass


@dataclass(frozen=True, slots=True)
class _Program:
    """The registered endpoints of one program."""

    entry: str
    backend: PassthroughBackend
    endpoints: tuple[tuple[str, str], ...]


class Backends:
    """Watches the discovery ConfigMap and registers the endpoints of external programs."""

    def __init__(self, client: Client, passthroughs: PassthroughRoutes) -> None:
        self._client = client
        self._passthroughs = passthroughs
        self._programs: dict[str, _Program] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        events = self._client.list_and_watch(
            CONFIG_MAPS,
            namespace=names.SYSTEM_NAMESPACE,
            field_selector=f"metadata.name={names.DISCOVERY_CONFIG_MAP}",
        )
        try:
            async with aclosing(events):
                async for event in events:
                    if event.type in ("ADDED", "MODIFIED"):
                        await self._synchronize(event.object.get("data") or {})
                    elif event.type == "DELETED":
                        await self._synchronize({})
        finally:
            await self._synchronize({})

    async def _synchronize(self, entries: dict[str, str]) -> None:
        for name, program in list(self._programs.items()):
            if entries.get(name) != program.entry:
                del self._programs[name]
                for controller, endpoint in program.endpoints:
                    self._passthroughs.unregister(controller, endpoint, program.backend.handle)
                await program.backend.close()
        for name, entry in entries.items():
            if name != EMBEDDED and name not in self._programs:
                await self._add(name, entry)

    async def _add(self, name: str, entry: str) -> None:
        try:
            url, endpoints = _parse(entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("the entry of %s in the discovery ConfigMap is malformed", name)
            return
        if not endpoints:
            return
        try:
            found = await self._client.get(SECRETS, _name(name), namespace=names.SYSTEM_NAMESPACE)
        except errors.ApiError as error:
            log.warning("the endpoints of %s are not routed: %s", name, error.message)
            return
        if _decoded(found, "url") != url or not url.startswith(_LOOPBACK):
            log.warning("the endpoints of %s are not routed: %s is not its port", name, url)
            return
        backend = PassthroughBackend(
            url.replace("localhost", "127.0.0.1", 1),
            secret_header=names.PASSTHROUGH_SECRET_HEADER,
            secret=_decoded(found, "secret"),
            challenge=CHALLENGE,
        )
        self._programs[name] = _Program(entry, backend, endpoints)
        for controller, endpoint in endpoints:
            self._passthroughs.register(controller, endpoint, backend.handle)


def _parse(entry: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the URL and the endpoints of an entry."""
    found: dict[str, Any] = json.loads(entry)
    offered: dict[str, list[str]] = found["enabledPassthroughs"] or {}
    pairs = [(str(name), str(each)) for name, endpoints in offered.items() for each in endpoints]
    return str(found["passthroughEndpoint"]), tuple(pairs)


def _name(program: str) -> str:
    return f"passthrough-{program}"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(secret: dict[str, Any], key: str) -> str:
    return base64.b64decode((secret.get("data") or {}).get(key) or "").decode("utf-8", "replace")
