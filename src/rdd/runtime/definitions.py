# SPDX-License-Identifier: Apache-2.0
"""Install CustomResourceDefinitions.

A missing definition is created, one with another spec is updated; objects are kept. The call
returns when the server serves the kind, which it watches instead of polling.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS
from rdd.runtime.conditions import conditions_of, find_condition, is_true

ESTABLISH_S = 30.0
_ATTEMPTS = 10


class NotEstablished(Exception):
    """A definition was stored, but the server does not serve its kind; the text is the reason."""


async def install_definitions(
    client: Client, definitions: Sequence[Object], *, timeout_s: float = ESTABLISH_S
) -> None:
    """Install definitions concurrently. Raises NotEstablished or the error of the server."""
    async with asyncio.TaskGroup() as group:
        for definition in definitions:
            group.create_task(
                install_definition(client, definition, timeout_s=timeout_s),
                name=f"rdd-definition {definition['metadata']['name']}",
            )


async def install_definition(
    client: Client, definition: Object, *, timeout_s: float = ESTABLISH_S
) -> None:
    """Install one definition and return when its kind is served."""
    stored = await _store(client, definition)
    if _is_established(stored):
        return
    name = definition["metadata"]["name"]
    try:
        async with asyncio.timeout(timeout_s):
            events = client.list_and_watch(
                CUSTOM_RESOURCE_DEFINITIONS, field_selector=f"metadata.name={name}"
            )
            async with aclosing(events):
                async for event in events:
                    if event.type in ("ADDED", "MODIFIED"):
                        stored = event.object
                        if _is_established(stored):
                            return
    except TimeoutError:
        raise NotEstablished(
            f"{name} is not served after {timeout_s:g} s: {_why(stored)}"
        ) from None


async def _store(client: Client, definition: Object) -> Object:
    name = definition["metadata"]["name"]
    attempt = 0
    while True:
        try:
            present = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
            if present["spec"] == definition["spec"]:
                return present
            annotations = {
                **(present["metadata"].get("annotations") or {}),
                **(definition["metadata"].get("annotations") or {}),
            }
            metadata = {**present["metadata"], "annotations": annotations}
            wanted = {**present, "metadata": metadata, "spec": definition["spec"]}
            return await client.update(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        except errors.NotFound:
            pass
        except errors.Conflict:
            attempt += 1
            if attempt == _ATTEMPTS:
                raise
            continue
        try:
            return await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        except errors.AlreadyExists:
            attempt += 1
            if attempt == _ATTEMPTS:
                raise


def _is_established(definition: Object) -> bool:
    return is_true(conditions_of(definition), names.ESTABLISHED)


def _why(definition: Object) -> str:
    conditions = conditions_of(definition)
    for type_ in (names.NAMES_ACCEPTED, names.ESTABLISHED):
        found = find_condition(conditions, type_)
        if found is not None and found.get("status") != "True":
            return str(found.get("message") or found.get("reason") or type_)
    return "the server gives no reason"
