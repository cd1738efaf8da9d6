# SPDX-License-Identifier: Apache-2.0
"""demo: processes a message as often as the Demo asks for, and shows what endpoints can do.

Each look at the Demo processes the message once and writes the status, which is the
reason for the next look. The first messages are processed as fast as that goes; many
are given time, so that a large count does not occupy the server.

    /passthrough/demo/hello/<rest>    text: a greeting, the headers and the path of the request
    /passthrough/demo/websocket/      a WebSocket with one message
"""

from aiohttp import web

from rdd.api import errors, timestamps
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.runtime import (
    Condition,
    Context,
    Controller,
    ObjectKey,
    Result,
    find_condition,
    patch_status,
    resource_of,
    set_condition,
    watch,
)
from rdd.runtime.conditions import ConditionStatus

DEMO = ObjectKey("", "demo")
AT_ONCE = 10
"""How many messages are processed without a pause."""
PAUSE_S = 0.1

_REQUEUE_S = 10.0
_IN_PROGRESS: dict[str, tuple[ConditionStatus, str, str]] = {
    "Ready": ("True", "Processing", "The demo processes messages"),
    "Processing": ("True", "InProgress", "Messages are being processed"),
    "Completed": ("False", "InProgress", "Not all messages are processed yet"),
}
_COMPLETED: dict[str, tuple[ConditionStatus, str, str]] = {
    "Ready": ("True", "Ready", "The demo is ready"),
    "Processing": ("False", "Completed", "No messages are being processed"),
    "Completed": ("True", "Completed", "All messages are processed"),
}


def demo(env: ControllerEnvironment) -> Controller:
    """The controller of the Demo."""
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
        """Process the next message, or report that there is none left."""
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

    async def _report(
        self, found: Demo, status: Object, conditions: dict[str, tuple[ConditionStatus, str, str]]
    ) -> bool:
        """Write status and conditions; whether there was anything to write."""
        before = found.raw.get("status") or {}
        wanted = before.get("conditions") or []
        changed = []
        for type_, (value, reason, message) in conditions.items():
            known = find_condition(wanted, type_) or {}
            if (known.get("status"), known.get("reason")) != (value, reason):
                changed.append(f"Condition {type_} is {value}: {reason}")
            wanted = set_condition(
                wanted,
                Condition(type_, value, reason, message, found.metadata.generation),
                now=timestamps.now_text(self._context.clock),
            )
        status = {**status, "conditions": wanted}
        if status == before:
            return False
        await patch_status(self._context.client, Demo, found.raw, status)
        for note in changed:
            self._context.events.event(found.raw, "Normal", "ConditionChanged", note)
        return True

    async def _delete(self, found: Demo) -> None:
        """Remove a Demo of another name, which an older definition may have let in."""
        try:
            await self._context.client.delete(
                resource_of(Demo), found.metadata.name, uid=found.metadata.uid
            )
        except (errors.NotFound, errors.Conflict):
            pass


async def hello(request: web.BaseRequest, rest: str) -> web.StreamResponse:
    """Greet, and show the request."""
    lines = ["Hello, world!"]
    for name in sorted({_canonical(name) for name in request.headers} - {"Host"}):
        values = " ".join(quote(value) for value in request.headers.getall(name))
        lines.append(f"{name} = [{values}]")
    lines.append(f"Path = {quote(rest)}")
    return web.Response(text="\n".join([*lines, ""]))


async def websocket(request: web.BaseRequest, rest: str) -> web.StreamResponse:
    """Say hello in one message."""
    answer = web.WebSocketResponse()
    await answer.prepare(request)
    await answer.send_str("hello from websocket\n")
    await answer.close()
    return answer


def _canonical(name: str) -> str:
    """`User-Agent` of any spelling."""
    return "-".join(part.capitalize() for part in name.split("-"))
