# SPDX-License-Identifier: Apache-2.0
"""Small controllers for tests of controller managers."""

import asyncio
from dataclasses import replace
from typing import Any

from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.catalog import ControllerEntry
from rdd.controllers.environment import ControllerEnvironment
from rdd.runtime import (
    AdmissionRequest,
    Context,
    Controller,
    Denied,
    ObjectKey,
    Result,
    Webhook,
    validating,
    watch,
)

ENTRIES = (
    ControllerEntry("stamp", "rdd", "tests.daemon.composed:stamp", needs=("guard",)),
    ControllerEntry("guard", "app", "tests.daemon.composed:guard"),
    ControllerEntry("slow", "lima", "tests.daemon.composed:slow"),
    ControllerEntry("broken", "containers", "tests.daemon.composed:broken"),
    ControllerEntry("fragile", "containers", "tests.daemon.composed:fragile"),
    ControllerEntry("pretend", "mock", "tests.daemon.composed:stamp"),
)
LABELLED = {"matchLabels": {"guarded": "yes"}}


def entry(name: str) -> ControllerEntry:
    return next(e for e in ENTRIES if e.name == name)


class Stamper:
    """Writes the environment of its process into every ConfigMap that requests it."""

    def __init__(self, context: Context, mark: str) -> None:
        self.context, self.mark = context, mark
        self.targets = context.cache.informer(CONFIG_MAPS)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self.targets.get(key)
        if found is None or "stamp" not in (found["metadata"].get("labels") or {}):
            return Result.done()
        if (found.get("data") or {}).get("stamp") != self.mark:
            data = {"data": {"stamp": self.mark}}
            client = self.context.client
            await client.patch(CONFIG_MAPS, key.name, data, namespace=key.namespace)
        return Result.done()


def stamp(env: ControllerEnvironment) -> Controller:
    mark = env.environment.get("STAMP", "stamped")
    return Controller("stamp", lambda c: Stamper(c, mark), sources=(watch(CONFIG_MAPS),))


class Idle:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def reconcile(self, key: ObjectKey) -> Result:
        return Result.done()


def guard(env: ControllerEnvironment) -> Controller:
    """Rejects ConfigMaps listed in another one; its handlers read and write."""

    def webhooks(context: Context) -> tuple[Webhook, ...]:
        async def check(request: AdmissionRequest[Any]) -> None:
            data = request.object.raw.get("data") or {}
            if data.get("nested"):
                # Its own kind, so that the handler is called recursively.
                raw = request.object.raw
                name = f"{raw['metadata']['name']}-n"
                metadata = {**raw["metadata"], "name": name}
                for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                    metadata.pop(key, None)
                await context.client.create(CONFIG_MAPS, {**raw, "metadata": metadata})
            if data.get("bad"):
                raise Denied("that is bad")

        return (
            validating(
                "guard",
                CONFIG_MAPS,
                check,
                webhook_name="guard.example.com",
                label_selector=LABELLED,
            ),
        )

    return Controller("guard", Idle, sources=(watch(CONFIG_MAPS),), webhooks=webhooks)


class Slow(Idle):
    """Drains slowly and records it."""

    async def drain(self) -> None:
        for step in ("stopping", "stopped"):
            metadata = {"name": step, "namespace": "default"}
            await self.context.client.create(CONFIG_MAPS, {"metadata": metadata})
            await asyncio.sleep(0.01)


def slow(env: ControllerEnvironment) -> Controller:
    return Controller("slow", Slow, sources=(watch(CONFIG_MAPS),))


def broken(env: ControllerEnvironment) -> Controller:
    """Has a definition that the server rejects."""
    definition = {"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com"}}
    return replace(slow(env), name="broken", definitions=(definition,))


class Fragile(Idle):
    """Fails with an error in its own code right after its start."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        raise RuntimeError("the fragile one is broken")


def fragile(env: ControllerEnvironment) -> Controller:
    return Controller("fragile", Fragile, sources=(watch(CONFIG_MAPS),))
