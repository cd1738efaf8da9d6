# SPDX-License-Identifier: Apache-2.0
"""The API of containerd over its unix socket, as far as the mirror needs it.

containerd keeps containers, their tasks (the processes) and images in namespaces,
which are named in the metadata of each call. The field numbers are those of version 1
of its published API; they never change.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from rdd.engine.errors import EngineNotFound
from rdd.engine.grpc import Channel
from rdd.engine.protobuf import Message, field
from rdd.engine.records import Object

STATES: Final = ("unknown", "created", "running", "stopped", "paused", "pausing")
"""States of a task, indexed by their number in the API."""
_OOM_KILLED = 1
_MAX_DOCUMENT = 4 * 1024 * 1024
_PROBE = "/rdd/hello"
_PROBE_S = 0.1


@dataclass(frozen=True, slots=True)
class ContainerdContainer:
    """A container, without its processes."""

    id: str
    image: str
    labels: Mapping[str, str]
    spec: Object
    """The OCI runtime specification; empty if it is not JSON."""
    snapshotter: str
    snapshot: str
    created_s: int


@dataclass(frozen=True, slots=True)
class ContainerdTask:
    """The first process of a container."""

    container: str
    pid: int
    state: str
    exit_code: int
    exited_s: int
    oom_killed: bool | None
    """None if this version does not report it."""


@dataclass(frozen=True, slots=True)
class ContainerdImage:
    """An image name and its target."""

    name: str
    digest: str
    media_type: str
    size: int
    labels: Mapping[str, str]
    created_s: int


class ContainerdEvent(NamedTuple):
    """An event of containerd."""

    namespace: str
    topic: str
    """Such as `/tasks/start`."""
    id: str
    """The ID of the container, or the name of the image or of the namespace."""


class ContainerdClient:
    """A client of containerd."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._channel = Channel(socket)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def version(self) -> str:
        """Return the version of containerd. Raises EngineFailure."""
        return (await self._call("version.v1.Version/Version")).text(1)

    async def namespaces(self) -> list[str]:
        response = await self._call("namespaces.v1.Namespaces/List")
        return [found.text(1) for found in response.messages(1)]

    @asynccontextmanager
    async def events(self, *topics: str) -> AsyncGenerator[AsyncIterator[ContainerdEvent], None]:
        """Yield future events of topics with one of these prefixes.

        The API does not confirm a subscription and does not replay events. So the client
        publishes an event of its own until it arrives.
        """
        wanted = (*topics, _PROBE)
        message = b"".join(field(1, f'topic~="^{topic}"') for topic in wanted)
        path = "/containerd.services.events.v1.Events/Subscribe"
        async with (
            self._channel.stream(path, message) as messages,
            aclosing(_decoded(messages)) as events,
        ):
            early = await self._wait_until_subscribed(events)
            yield _without_probe(early, events)

    async def _wait_until_subscribed(
        self, events: AsyncGenerator[ContainerdEvent, None]
    ) -> list[ContainerdEvent]:
        """Wait until the subscription works; return the events that arrived before the probe."""
        early: list[ContainerdEvent] = []
        probe = field(1, _PROBE) + field(2, field(1, "rdd.Hello"))
        while True:
            arrival = asyncio.ensure_future(anext(events))
            try:
                while not arrival.done():
                    await self._call("events.v1.Events/Publish", probe, namespace="default")
                    await asyncio.wait({arrival}, timeout=_PROBE_S)
                event = arrival.result()
            finally:
                arrival.cancel()
                await asyncio.gather(arrival, return_exceptions=True)
            if event.topic == _PROBE:
                return early
            early.append(event)

    # -- containers

    async def containers(self, namespace: str) -> list[ContainerdContainer]:
        response = await self._call("containers.v1.Containers/List", namespace=namespace)
        return [_container(found) for found in response.messages(1)]

    async def container(self, namespace: str, id_: str) -> ContainerdContainer:
        """Return a container. Raises EngineNotFound."""
        path = "containers.v1.Containers/Get"
        response = await self._call(path, field(1, id_), namespace=namespace)
        return _container(response.message(1))

    async def delete_container(self, namespace: str, id_: str) -> None:
        """Remove a container without a task."""
        path = "containers.v1.Containers/Delete"
        await self._call(path, field(1, id_), namespace=namespace)

    async def remove_snapshot(self, namespace: str, snapshotter: str, key: str) -> None:
        """Remove the file system of a container."""
        message = field(1, snapshotter) + field(2, key)
        await self._call("snapshots.v1.Snapshots/Remove", message, namespace=namespace)

    # -- tasks

    async def task(self, namespace: str, id_: str) -> ContainerdTask | None:
        """Return the task of a container; None without one."""
        try:
            response = await self._call("tasks.v1.Tasks/Get", field(1, id_), namespace=namespace)
        except EngineNotFound:
            return None
        return _task(response.message(1))

    async def kill_task(self, namespace: str, id_: str, signal: int) -> None:
        """Send a signal to all processes of a container."""
        message = field(1, id_) + field(3, signal) + field(4, True)
        await self._call("tasks.v1.Tasks/Kill", message, namespace=namespace)

    async def pause_task(self, namespace: str, id_: str) -> None:
        """Freeze the processes of a container."""
        await self._call("tasks.v1.Tasks/Pause", field(1, id_), namespace=namespace)

    async def resume_task(self, namespace: str, id_: str) -> None:
        """Resume the processes of a container."""
        await self._call("tasks.v1.Tasks/Resume", field(1, id_), namespace=namespace)

    async def wait_task(self, namespace: str, id_: str) -> None:
        """Wait for the end of the first process."""
        await self._call("tasks.v1.Tasks/Wait", field(1, id_), namespace=namespace)

    async def delete_task(self, namespace: str, id_: str) -> None:
        """Remove a finished task."""
        await self._call("tasks.v1.Tasks/Delete", field(1, id_), namespace=namespace)

    # -- images

    async def images(self, namespace: str) -> list[ContainerdImage]:
        response = await self._call("images.v1.Images/List", namespace=namespace)
        return [_image(found) for found in response.messages(1)]

    async def image(self, namespace: str, name: str) -> ContainerdImage:
        """Return an image. Raises EngineNotFound."""
        response = await self._call("images.v1.Images/Get", field(1, name), namespace=namespace)
        return _image(response.message(1))

    async def delete_image(self, namespace: str, name: str) -> None:
        """Remove the name of an image."""
        message = field(1, name) + field(2, True)
        await self._call("images.v1.Images/Delete", message, namespace=namespace)

    async def document(self, namespace: str, digest: str) -> Object:
        """Return a manifest or configuration of the content store; empty if it is missing."""
        path = "/containerd.services.content.v1.Content/Read"
        found = b""
        try:
            async with self._channel.stream(path, field(1, digest), _metadata(namespace)) as pieces:
                async for piece in pieces:
                    found += Message(piece).bytes(2)
                    if len(found) > _MAX_DOCUMENT:
                        return {}
            document = orjson.loads(found)
        except (EngineNotFound, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    async def _call(self, method: str, message: bytes = b"", *, namespace: str = "") -> Message:
        path = f"/containerd.services.{method}"
        return Message(await self._channel.unary(path, message, _metadata(namespace)))


def _metadata(namespace: str) -> dict[str, str]:
    return {"containerd-namespace": namespace} if namespace else {}


def _container(found: Message) -> ContainerdContainer:
    spec: Any = None
    try:
        spec = orjson.loads(found.message(5).bytes(2))
    except ValueError:
        pass
    return ContainerdContainer(
        id=found.text(1),
        image=found.text(3),
        labels=found.texts(2),
        spec=spec if isinstance(spec, dict) else {},
        snapshotter=found.text(6),
        snapshot=found.text(7),
        created_s=found.message(8).signed(1),
    )


def _task(found: Message) -> ContainerdTask:
    state = found.integer(4)
    return ContainerdTask(
        container=found.text(1) or found.text(2),
        pid=found.integer(3),
        state=STATES[state] if state < len(STATES) else STATES[0],
        exit_code=found.integer(9),
        exited_s=found.message(10).signed(1),
        oom_killed=found.integer(11) == _OOM_KILLED if 11 in found else None,
    )


def _image(found: Message) -> ContainerdImage:
    target = found.message(3)
    return ContainerdImage(
        name=found.text(1),
        digest=target.text(2),
        media_type=target.text(1),
        size=target.signed(3),
        labels=found.texts(2),
        created_s=found.message(7).signed(1),
    )


async def _decoded(messages: AsyncIterator[bytes]) -> AsyncGenerator[ContainerdEvent, None]:
    async for message in messages:
        yield _event(message)


async def _without_probe(
    early: list[ContainerdEvent], events: AsyncIterator[ContainerdEvent]
) -> AsyncGenerator[ContainerdEvent, None]:
    for event in early:
        yield event
    async for event in events:
        if event.topic != _PROBE:
            yield event


def _event(data: bytes) -> ContainerdEvent:
    envelope = Message(data)
    # The first field of every event names its subject.
    subject = envelope.message(4).message(2).text(1)
    return ContainerdEvent(envelope.text(2), envelope.text(3), subject)
