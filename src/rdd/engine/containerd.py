# SPDX-License-Identifier: Apache-2.0
"""The API of containerd over its unix socket, as much of it as a mirror needs.

containerd keeps containers, their tasks (the processes) and images in namespaces,
which are named in the metadata of each call. Field numbers are those of its
published API, version 1; they never change.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from rdd.engine.errors import NotFound
from rdd.engine.grpc import Channel
from rdd.engine.protobuf import Message, field
from rdd.engine.records import Object

STATES: Final = ("unknown", "created", "running", "stopped", "paused", "pausing")
"""Of a task, by the number the API has for it."""
_OOM_KILLED = 1
_MAX_DOCUMENT = 4 * 1024 * 1024
_HELLO = "/rdd/hello"
_HELLO_S = 0.1


@dataclass(frozen=True, slots=True)
class Container:
    """A container: what could run."""

    id: str
    image: str
    labels: Mapping[str, str]
    spec: Object
    """As the OCI runtime gets it; empty if it is no JSON."""
    snapshotter: str
    snapshot: str
    created_s: int


@dataclass(frozen=True, slots=True)
class Task:
    """The first process of a container."""

    container: str
    pid: int
    state: str
    exit_code: int
    exited_s: int
    oom_killed: bool | None
    """None from versions that do not tell."""


@dataclass(frozen=True, slots=True)
class Image:
    """A name and what it stands for."""

    name: str
    digest: str
    media_type: str
    size: int
    labels: Mapping[str, str]
    created_s: int


class Event(NamedTuple):
    """Something that happened."""

    namespace: str
    topic: str
    """Such as `/tasks/start`."""
    id: str
    """Of the container, the name of the image or of the namespace."""


class Containerd:
    """A client of one containerd."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._channel = Channel(socket)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._channel.close()

    async def version(self) -> str:
        """The version of containerd. Raises EngineFailure."""
        return (await self._call("version.v1.Version/Version")).text(1)

    async def namespaces(self) -> list[str]:
        """All namespaces."""
        answer = await self._call("namespaces.v1.Namespaces/List")
        return [found.text(1) for found in answer.messages(1)]

    @asynccontextmanager
    async def events(self, *topics: str) -> AsyncGenerator[AsyncIterator[Event], None]:
        """What happens from now on, of topics that begin with one of these.

        The stream does not tell when it is at work, and nothing is repeated. So an event
        of our own is published until it comes back.
        """
        wanted = (*topics, _HELLO)
        message = b"".join(field(1, f'topic~="^{topic}"') for topic in wanted)
        path = "/containerd.services.events.v1.Events/Subscribe"
        async with (
            self._channel.stream(path, message) as answers,
            aclosing(_decoded(answers)) as events,
        ):
            early = await self._subscribed(events)
            yield _without_hello(early, events)

    async def _subscribed(self, events: AsyncGenerator[Event, None]) -> list[Event]:
        """Return when events arrive; those that did before ours."""
        early: list[Event] = []
        hello = field(1, _HELLO) + field(2, field(1, "rdd.Hello"))
        while True:
            arrival = asyncio.ensure_future(anext(events))
            try:
                while not arrival.done():
                    await self._call("events.v1.Events/Publish", hello, namespace="default")
                    await asyncio.wait({arrival}, timeout=_HELLO_S)
                event = arrival.result()
            finally:
                arrival.cancel()
                await asyncio.gather(arrival, return_exceptions=True)
            if event.topic == _HELLO:
                return early
            early.append(event)

    # -- containers

    async def containers(self, namespace: str) -> list[Container]:
        """All containers of a namespace."""
        answer = await self._call("containers.v1.Containers/List", namespace=namespace)
        return [_container(found) for found in answer.messages(1)]

    async def container(self, namespace: str, id_: str) -> Container:
        """One container. Raises NotFound."""
        path = "containers.v1.Containers/Get"
        answer = await self._call(path, field(1, id_), namespace=namespace)
        return _container(answer.message(1))

    async def delete_container(self, namespace: str, id_: str) -> None:
        """Remove a container, which must have no task."""
        path = "containers.v1.Containers/Delete"
        await self._call(path, field(1, id_), namespace=namespace)

    async def remove_snapshot(self, namespace: str, snapshotter: str, key: str) -> None:
        """Remove the file system of a container."""
        message = field(1, snapshotter) + field(2, key)
        await self._call("snapshots.v1.Snapshots/Remove", message, namespace=namespace)

    # -- tasks

    async def task(self, namespace: str, id_: str) -> Task | None:
        """The task of a container; None if it has none."""
        try:
            answer = await self._call("tasks.v1.Tasks/Get", field(1, id_), namespace=namespace)
        except NotFound:
            return None
        return _task(answer.message(1))

    async def kill_task(self, namespace: str, id_: str, signal: int) -> None:
        """Send a signal to all processes of a container."""
        message = field(1, id_) + field(3, signal) + field(4, True)
        await self._call("tasks.v1.Tasks/Kill", message, namespace=namespace)

    async def pause_task(self, namespace: str, id_: str) -> None:
        """Freeze the processes of a container."""
        await self._call("tasks.v1.Tasks/Pause", field(1, id_), namespace=namespace)

    async def resume_task(self, namespace: str, id_: str) -> None:
        """Let the processes of a container go on."""
        await self._call("tasks.v1.Tasks/Resume", field(1, id_), namespace=namespace)

    async def wait_task(self, namespace: str, id_: str) -> None:
        """Return when the first process has ended."""
        await self._call("tasks.v1.Tasks/Wait", field(1, id_), namespace=namespace)

    async def delete_task(self, namespace: str, id_: str) -> None:
        """Remove a task that has ended."""
        await self._call("tasks.v1.Tasks/Delete", field(1, id_), namespace=namespace)

    # -- images

    async def images(self, namespace: str) -> list[Image]:
        """All images of a namespace."""
        answer = await self._call("images.v1.Images/List", namespace=namespace)
        return [_image(found) for found in answer.messages(1)]

    async def image(self, namespace: str, name: str) -> Image:
        """One image. Raises NotFound."""
        answer = await self._call("images.v1.Images/Get", field(1, name), namespace=namespace)
        return _image(answer.message(1))

    async def delete_image(self, namespace: str, name: str) -> None:
        """Remove the name of an image."""
        message = field(1, name) + field(2, True)
        await self._call("images.v1.Images/Delete", message, namespace=namespace)

    async def document(self, namespace: str, digest: str) -> Object:
        """A manifest or a configuration in the content store; empty if it is not there."""
        path = "/containerd.services.content.v1.Content/Read"
        found = b""
        try:
            async with self._channel.stream(path, field(1, digest), _metadata(namespace)) as pieces:
                async for piece in pieces:
                    found += Message(piece).bytes(2)
                    if len(found) > _MAX_DOCUMENT:
                        return {}
            document = orjson.loads(found)
        except (NotFound, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    async def _call(self, method: str, message: bytes = b"", *, namespace: str = "") -> Message:
        path = f"/containerd.services.{method}"
        return Message(await self._channel.unary(path, message, _metadata(namespace)))


def _metadata(namespace: str) -> dict[str, str]:
    return {"containerd-namespace": namespace} if namespace else {}


def _container(found: Message) -> Container:
    spec: Any = None
    try:
        spec = orjson.loads(found.message(5).bytes(2))
    except ValueError:
        pass
    return Container(
        id=found.text(1),
        image=found.text(3),
        labels=found.texts(2),
        spec=spec if isinstance(spec, dict) else {},
        snapshotter=found.text(6),
        snapshot=found.text(7),
        created_s=found.message(8).signed(1),
    )


def _task(found: Message) -> Task:
    state = found.integer(4)
    return Task(
        container=found.text(1) or found.text(2),
        pid=found.integer(3),
        state=STATES[state] if state < len(STATES) else STATES[0],
        exit_code=found.integer(9),
        exited_s=found.message(10).signed(1),
        oom_killed=found.integer(11) == _OOM_KILLED if 11 in found else None,
    )


def _image(found: Message) -> Image:
    target = found.message(3)
    return Image(
        name=found.text(1),
        digest=target.text(2),
        media_type=target.text(1),
        size=target.signed(3),
        labels=found.texts(2),
        created_s=found.message(7).signed(1),
    )


async def _decoded(answers: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
    async for answer in answers:
        yield _event(answer)


async def _without_hello(
    early: list[Event], events: AsyncIterator[Event]
) -> AsyncGenerator[Event, None]:
    for event in early:
        yield event
    async for event in events:
        if event.topic != _HELLO:
            yield event


def _event(data: bytes) -> Event:
    envelope = Message(data)
    # Whatever the event is about comes first in all of them.
    about = envelope.message(4).message(2).text(1)
    return Event(envelope.text(2), envelope.text(3), about)
