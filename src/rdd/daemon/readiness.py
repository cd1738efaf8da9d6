# SPDX-License-Identifier: Apache-2.0
"""The conditions for readiness of the control plane.

The first write of a client must not fail because a part is still starting: the CRDs of all
controllers are established, their admission webhooks respond, their caches are synced. All
waits use watches; nothing is polled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rdd.api import names
from rdd.client import ApiResource, Client
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS

MUTATING_WEBHOOKS = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """The conditions of the controllers of this run."""

    definitions: Collection[str] = ()
    """Names of CRDs that must be established."""
    mutating_webhooks: Collection[str] = ()
    """Names of webhook configurations that must exist."""
    validating_webhooks: Collection[str] = ()
    checks: Sequence[Callable[[], Awaitable[None]]] = ()
    """Return when a part is ready, such as a cache."""


async def wait(client: Client, required: Requirements) -> None:
    """Return when all conditions are met."""
    async with asyncio.TaskGroup() as group:
        for resource, names, test in (
            (CUSTOM_RESOURCE_DEFINITIONS, required.definitions, is_established),
            (MUTATING_WEBHOOKS, required.mutating_webhooks, _exists),
            (VALIDATING_WEBHOOKS, required.validating_webhooks, _exists),
        ):
            if names:
                group.create_task(until(client, resource, names, test))
        for check in required.checks:
            group.create_task(_run(check))


async def until(
    client: Client,
    resource: ApiResource,
    names: Collection[str],
    test: Callable[[dict[str, Any]], bool],
) -> None:
    """Return when every object of these names exists and satisfies `test`."""
    missing = set(names)
    async with aclosing(client.list_and_watch(resource)) as events:
        async for event in events:
            if event.type in ("ADDED", "MODIFIED") and test(event.object):
                missing.discard(event.object["metadata"]["name"])
            if not missing:
                return


def is_established(definition: dict[str, Any]) -> bool:
    """Return whether a CustomResourceDefinition is served."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(c["type"] == names.ESTABLISHED and c["status"] == "True" for c in conditions)


def _exists(_: dict[str, Any]) -> bool:
    return True


async def _run(check: Callable[[], Awaitable[None]]) -> None:
    await check()
