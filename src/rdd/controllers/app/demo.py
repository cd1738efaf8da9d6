# SPDX-License-Identifier: Apache-2.0
"""demo: processes a message `spec.count` times, and demonstrates endpoints.

Each reconciliation processes the message once and writes the status, which triggers the
next one. The first messages are processed without delay; further ones are throttled, so
that a large count does not occupy the server.

    /passthrough/demo/hello/<rest>    text: a greeting, the headers and the path of the request
    /passthrough/demo/websocket/      a WebSocket with one message
"""

from collections.abc import Mapping

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.controllers.environment import ControllerEnvironment
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.http.websocket import HandshakeError, WebSocket
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.runtime import (
    Context,
    Controller,
    ObjectKey,
    Result,
    conditions_of,
    patch_status,
    resource_of,
    set_condition,
    watch,
)
from rdd.runtime.conditions import Reason, ReasonTable

DEMO = ObjectKey("", "demo")
AT_ONCE = 10
"""The number of messages that are processed without delay."""
PAUSE_S = 0.1

_REQUEUE_S = 10.0
_REASONS = ReasonTable(
    Reason("Ready", "True", "Processing", "The demo processes messages"),
    Reason("Ready", "True", "Ready", "The demo is ready"),
    Reason("Processing", "True", "InProgress", "Messages are being processed"),
    Reason("Processing", "False", "Completed", "No messages are being processed"),
    Reason("Completed", "False", "InProgress", "Not all messages are processed yet"),
    Reason("Completed", "True", "Completed", "All messages are processed"),
)
_IN_PROGRESS = {"Ready": "Processing", "Processing": "InProgress", "Completed": "InProgress"}
_COMPLETED = {"Ready": "Ready", "Processing": "Completed", "Completed": "Completed"}


def demo(env: ControllerEnvironment) -> Controller:
    """Create the controller of the Demo."""
    return Controller(
        "demo",
        DemoReconciler,
        sources=(watch(Demo),),
        definitions=(definition_of(Demo),),
        passthroughs={"hello": hello, "websocket": websocket},
    )


class DemoReconciler:
    """Processes one message at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._demos = context.cache.of(Demo)
        self._not_before = 0.0

    async def reconcile(self, key: ObjectKey) -> Result:
        """Process the next message, or report the completion."""
        found = self._demos.get(key)
        if found is None:
            return Result.done()
        if key != DEMO:
            await self._delete(found)
            return Result.done()
        done, count = found.status.processed_count, found.spec.count
        if done >= count:
            if await self._report(found, found.status.raw, _COMPLETED):
                self._context.events.event(
                    found.raw, "Normal", "Completed", f"Processed all {count} messages"
                )
            return Result.done()
        now = self._context.clock()
        if done >= AT_ONCE and now < self._not_before:
            return Result.requeue(self._not_before - now)
        self._not_before = now + PAUSE_S
        status = found.status.replace(
            processed_count=done + 1, last_processed=timestamps.now_text(self._context.clock)
        )
        await self._report(found, status.raw, _IN_PROGRESS)
        note = f"Processed message {done + 1} of {count}: {found.spec.message}"
        self._context.events.event(found.raw, "Normal", "Processing", note)
        return Result.requeue(_REQUEUE_S)

    async def _report(self, found: Demo, status: Object, reasons: Mapping[str, str]) -> bool:
        """Write status and conditions; return whether anything has changed."""
        before = conditions_of(found.raw)
        conditions = [
            _REASONS.condition(type_, reason).at(found.metadata.generation)
            for type_, reason in reasons.items()
        ]
        now = timestamps.now_text(self._context.clock)
        status = {**status, "conditions": set_condition(before, *conditions, now=now)}
        if status == (found.raw.get("status") or {}):
            return False
        # Fails if the cache is stale: a message must not be counted twice.
        await patch_status(self._context.client, Demo, found.raw, status)
        for condition in conditions:
            if condition.is_transition(before):
                note = f"Condition {condition.type} is {condition.status}: {condition.reason}"
                self._context.events.event(found.raw, "Normal", "ConditionChanged", note)
        return True

    async def _delete(self, found: Demo) -> None:
        """Delete a Demo of another name, which an older definition may have allowed."""
        try:
            await self._context.client.delete(
                resource_of(Demo), found.metadata.name, uid=found.metadata.uid
            )
        except (errors.NotFound, errors.Conflict):
            pass


async def hello(exchange: Exchange, rest: str) -> Response | None:
    """Show the request."""
    lines = ["Hello, world!"]
    for name in sorted({_canonical(name) for name in exchange.headers} - {"Host"}):
        values = " ".join(quote(value) for value in exchange.headers.getall(name))
        lines.append(f"{name} = [{values}]")
    lines.append(f"Path = {quote(rest)}")
    return Response.text("\n".join([*lines, ""]))


async def websocket(exchange: Exchange, rest: str) -> Response | None:
    """Send one message."""
    try:
        socket = WebSocket.accept(exchange)
    except HandshakeError as error:
        return error.response
    await socket.send("hello from websocket\n")
    await socket.close()
    return None


def _canonical(name: str) -> str:
    """Return the canonical spelling of a header, such as `User-Agent`."""
    return "-".join(part.capitalize() for part in name.split("-"))
