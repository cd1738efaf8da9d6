# SPDX-License-Identifier: Apache-2.0
"""A transport with scripted replies, and factories for small objects."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.transport import (
    Call,
    EncodedEvent,
    Keep,
    Reply,
    WatchRejected,
    event_of_line,
)


def config_map(name: str, version: int, **members: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, **members}


def line(type_: str, obj: Object) -> bytes:
    return orjson.dumps({"type": type_, "object": obj})


def json(value: Object, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps(value))


def listed(version: int, *items: Object, continue_: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), "continue": continue_}
    return json({"kind": "ConfigMapList", "metadata": metadata, "items": list(items)})


def failed(error: errors.ApiError) -> Reply:
    return json(error.to_status(), error.code)


class Pauses:
    """A sleep that returns at once and records the requested delays."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, delay_s: float) -> None:
        self.taken.append(delay_s)
        await asyncio.sleep(0)


class Scripted:
    """Replies from a list; a list of lines is a watch, and an exception is raised."""

    saves_bytes = False
    watch_timeout_s = 0
    wants_bookmarks = True
    streams_state = False

    def __init__(self, *answers: Reply | list[bytes] | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    def _next(self, call: Call) -> Reply | list[bytes] | Exception | None:
        self.calls.append(call)
        return self.answers.pop(0) if self.answers else None

    async def request(self, call: Call) -> Reply:
        answer = self._next(call)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Reply)
        return answer

    async def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        answer = self._next(call)
        if answer is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            raise WatchRejected(answer)
        assert answer is not None
        for event in map(event_of_line, answer):
            if keep is None or keep(event.type, event.body):
                yield event

    async def close(self) -> None:
        return
