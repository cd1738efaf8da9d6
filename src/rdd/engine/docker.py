# SPDX-License-Identifier: Apache-2.0
"""The Docker API over a unix socket.

    docker = Docker(socket)
    await docker.ping()                              # also agrees on a version
    async with docker.events() as events:            # subscribed when the block is entered
        async for event in events: …

Every method is one request. A `Docker` needs no opening and survives restarts
of the engine: what fails is raised as a class of `rdd.engine.errors`, and the
next call connects anew and agrees on a version again. Streams are context
managers: when the block is entered the engine has agreed to send. Transfers of
images are asynchronous generators; leave one early through `contextlib.aclosing`.

The oldest version is 1.41 (Docker 20.10); the newest is the one this was
written for, and engines that speak later ones still know it.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import orjson

from rdd.engine.errors import EngineError, Unintelligible, Unreachable, UnsupportedVersion
from rdd.engine.frames import Chunk, chunks
from rdd.engine.http import Exchange, Hijacked, Transport
from rdd.engine.records import ContainerConfig, EngineEvent, ExecConfig, Object, Progress

OLDEST = (1, 41)
NEWEST = (1, 51)

PING_S = 5.0
ANSWER_S = 60.0
"""How long the engine may take to begin an answer that it gives at once."""
STOP_S = 10
"""How long the engine waits for a container to end before it kills it."""


class Docker:
    """A client of one engine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._transport = Transport(socket)
        self._prefix = ""
        self._agreeing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of idle connections; streams end by themselves."""
        await self._transport.close()

    # -- the engine itself

    async def ping(self, *, answer_s: float = PING_S) -> str:
        """The version of the API both sides speak, such as `1.41`. Raises EngineFailure."""
        async with self._transport.exchange("GET", "/_ping", answer_s=answer_s) as exchange:
            await exchange.read()
            if exchange.status != 200:
                raise EngineError.of(exchange.status, f"ping answered {exchange.status}")
            spoken = exchange.headers.get("api-version", "")
        version = _version(spoken)
        if version is None:
            raise Unintelligible(f"the engine says it speaks version {spoken!r} of the Docker API")
        if version < OLDEST:
            raise UnsupportedVersion(
                f"the engine speaks version {spoken} of the Docker API; "
                f"{OLDEST[0]}.{OLDEST[1]} is the oldest that can be used"
            )
        agreed = min(version, NEWEST)
        self._prefix = f"/v{agreed[0]}.{agreed[1]}"
        return self._prefix[2:]

    async def info(self) -> Object:
        """What the engine says about itself; `SystemTime` is its clock."""
        return _object(await self._json("GET", "/info"))

    @asynccontextmanager
    async def events(
        self,
        *,
        since: str = "",
        until: str = "",
        filters: Mapping[str, Sequence[str]] | None = None,
    ) -> AsyncGenerator[AsyncIterator[EngineEvent], None]:
        """What happens, from `since` on (seconds with nanoseconds, by the engine's clock).

        Without `until` it goes on until the connection ends, in Unreachable or without a
        word. A line that makes no sense is an event of type `unknown` with the line as
        its action.
        """
        query = {"since": since, "until": until, "filters": _filters(filters)}
        async with (
            self._exchange("GET", "/events", query) as exchange,
            aclosing(exchange.lines()) as lines,
        ):
            yield (_event(line) async for line in lines)

    # -- containers

    async def containers(self, *, label: str = "") -> list[Object]:
        """All containers, or those with a label (`name=value`), as summaries."""
        query = {"all": "1", "filters": _filters({"label": [label]} if label else None)}
        return _list(await self._json("GET", "/containers/json", query))

    async def inspect_container(self, id_: str) -> Object:
        """Everything about one container."""
        return _object(await self._json("GET", f"/containers/{_name(id_)}/json"))

    async def create_container(self, config: ContainerConfig, *, name: str = "") -> str:
        """The ID of a new container."""
        body = config.body()
        made = _object(await self._json("POST", "/containers/create", {"name": name}, body))
        return str(made["Id"])

    async def start_container(self, id_: str) -> None:
        """Start a container; one that runs already is fine."""
        await self._do("POST", f"/containers/{_name(id_)}/start")

    async def stop_container(self, id_: str, *, grace_s: int = STOP_S) -> None:
        """Stop a container, after a while by force; one that does not run is fine."""
        path = f"/containers/{_name(id_)}/stop"
        await self._do("POST", path, {"t": str(grace_s)}, answer_s=grace_s + ANSWER_S)

    async def restart_container(self, id_: str, *, grace_s: int = STOP_S) -> None:
        """Stop a container and start it again."""
        path = f"/containers/{_name(id_)}/restart"
        await self._do("POST", path, {"t": str(grace_s)}, answer_s=grace_s + ANSWER_S)

    async def pause_container(self, id_: str) -> None:
        """Freeze the processes of a container."""
        await self._do("POST", f"/containers/{_name(id_)}/pause")

    async def unpause_container(self, id_: str) -> None:
        """Let the processes of a container go on."""
        await self._do("POST", f"/containers/{_name(id_)}/unpause")

    async def remove_container(self, id_: str, *, force: bool = False) -> None:
        """Remove a container; a running one only by force."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/containers/{_name(id_)}", query)

    async def resize_container(self, id_: str, *, height: int, width: int) -> None:
        """Tell the terminal of a container its size."""
        query = {"h": str(height), "w": str(width)}
        await self._do("POST", f"/containers/{_name(id_)}/resize", query)

    @asynccontextmanager
    async def logs(
        self,
        id_: str,
        *,
        is_terminal: bool,
        follow: bool = False,
        tail: str = "all",
        since: str = "",
        timestamps: bool = False,
    ) -> AsyncGenerator[AsyncIterator[Chunk], None]:
        """The output of a container; `is_terminal` is its `Config.Tty`."""
        query = {
            "stdout": "1",
            "stderr": "1",
            "follow": "1" if follow else "0",
            "tail": tail,
            "since": since,
            "timestamps": "1" if timestamps else "",
        }
        async with (
            self._exchange("GET", f"/containers/{_name(id_)}/logs", query) as exchange,
            aclosing(exchange.chunks()) as pieces,
        ):
            yield chunks(pieces, is_terminal=is_terminal)

    @asynccontextmanager
    async def stats(
        self, id_: str, *, stream: bool = True
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """What a container uses, once or every second, as lines of JSON."""
        query = {"stream": "1" if stream else "0", "one-shot": "" if stream else "1"}
        async with (
            self._exchange("GET", f"/containers/{_name(id_)}/stats", query) as exchange,
            aclosing(exchange.lines()) as lines,
        ):
            yield lines

    @asynccontextmanager
    async def attach(self, id_: str) -> AsyncGenerator[Hijacked, None]:
        """The streams of a container's first process, both ways."""
        query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        async with self._hijack(f"/containers/{_name(id_)}/attach", query) as hijacked:
            yield hijacked

    # -- commands in containers

    async def create_exec(self, id_: str, config: ExecConfig) -> str:
        """Prepare a command in a running container; its ID."""
        body: Object = {
            "Cmd": list(config.command),
            "Tty": config.is_terminal,
            "AttachStdin": config.wants_stdin,
            "AttachStdout": config.wants_stdout,
            "AttachStderr": config.wants_stderr,
            "Env": list(config.environment),
            "WorkingDir": config.workdir,
            "User": config.user,
            "Privileged": config.privileged,
        }
        made = await self._json("POST", f"/containers/{_name(id_)}/exec", {}, body)
        return str(_object(made)["Id"])

    @asynccontextmanager
    async def start_exec(
        self, exec_id: str, *, is_terminal: bool
    ) -> AsyncGenerator[Hijacked, None]:
        """Run a prepared command; the connection carries its streams."""
        body = {"Detach": False, "Tty": is_terminal}
        async with self._hijack(f"/exec/{_name(exec_id)}/start", {}, body) as hijacked:
            yield hijacked

    async def resize_exec(self, exec_id: str, *, height: int, width: int) -> None:
        """Tell the terminal of a command its size."""
        query = {"h": str(height), "w": str(width)}
        await self._do("POST", f"/exec/{_name(exec_id)}/resize", query)

    async def inspect_exec(self, exec_id: str) -> Object:
        """What became of a command; `ExitCode` is None while it runs."""
        return _object(await self._json("GET", f"/exec/{_name(exec_id)}/json"))

    # -- images

    async def images(self) -> list[Object]:
        """All images, those that others are built on included, as summaries."""
        return _list(await self._json("GET", "/images/json", {"all": "1"}))

    async def inspect_image(self, reference: str) -> Object:
        """Everything about one image."""
        return _object(await self._json("GET", f"/images/{_name(reference, '/:@')}/json"))

    async def remove_image(self, reference: str, *, force: bool = False) -> None:
        """Remove a tag, and with the last one the image; Conflict if it is in use."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/images/{_name(reference, '/:@')}", query)

    async def pull(
        self, repository: str, tag: str, *, auth: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Progress, None]:
        """Pull an image; `tag` may be a digest. EngineError in the stream if it fails."""
        query = {"fromImage": repository, "tag": tag}
        async for progress in self._transfer("/images/create", query, auth):
            yield progress

    async def push(
        self, repository: str, tag: str, *, auth: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Progress, None]:
        """Push a tag to its registry. EngineError in the stream if it fails."""
        path = f"/images/{_name(repository, '/:@')}/push"
        # The API requires the header, however empty.
        async for progress in self._transfer(path, {"tag": tag}, auth or {}):
            yield progress

    # -- volumes

    async def volumes(self, *, label: str = "") -> list[Object]:
        """All volumes, or those with a label (`name=value`)."""
        query = {"filters": _filters({"label": [label]} if label else None)}
        return _list(_object(await self._json("GET", "/volumes", query)).get("Volumes") or [])

    async def inspect_volume(self, name: str) -> Object:
        """Everything about one volume."""
        return _object(await self._json("GET", f"/volumes/{_name(name)}"))

    async def create_volume(
        self,
        name: str,
        *,
        driver: str = "local",
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Object:
        """A new volume, or the one of that name; without a name the engine makes one up."""
        body: Object = {"Name": name, "Driver": driver}
        body |= {"Labels": dict(labels or {}), "DriverOpts": dict(options or {})}
        return _object(await self._json("POST", "/volumes/create", {}, body))

    async def remove_volume(self, name: str, *, force: bool = False) -> None:
        """Remove a volume; Conflict if a container uses it."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/volumes/{_name(name)}", query)

    # -- inside

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        answer_s: float | None = ANSWER_S,
    ) -> AsyncGenerator[Exchange, None]:
        """One request whose refusal is raised."""
        if not self._prefix:
            async with self._agreeing:
                if not self._prefix:
                    await self.ping()
        given = urlencode({name: value for name, value in query.items() if value})
        target = f"{self._prefix}{path}?{given}" if given else f"{self._prefix}{path}"
        try:
            async with self._transport.exchange(
                method, target, headers=headers or {}, body=body, answer_s=answer_s
            ) as exchange:
                if exchange.status >= 400:
                    raise EngineError.of(exchange.status, _message(await exchange.read()))
                yield exchange
        except Unreachable:
            self._prefix = ""  # another engine may be there the next time
            raise

    async def _json(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> Any:
        data = b"" if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/json"} if data else None
        async with self._exchange(
            method, path, query or {}, headers=headers, body=data
        ) as exchange:
            return _decoded(await exchange.read())

    async def _do(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        async with self._exchange(method, path, query or {}, answer_s=answer_s) as exchange:
            await exchange.read()

    @asynccontextmanager
    async def _hijack(
        self, path: str, query: Mapping[str, str], body: object = None
    ) -> AsyncGenerator[Hijacked, None]:
        data = b"" if body is None else orjson.dumps(body)
        headers = {"Connection": "Upgrade", "Upgrade": "tcp", "Content-Type": "application/json"}
        async with self._exchange("POST", path, query, headers=headers, body=data) as exchange:
            # Some versions answer 200 and go on with raw bytes all the same.
            if exchange.status not in (101, 200):
                raise Unintelligible(f"the engine answered {exchange.status} to an upgrade")
            hijacked = exchange.hijack()
            try:
                yield hijacked
            finally:
                hijacked.close()

    async def _transfer(
        self, path: str, query: Mapping[str, str], auth: Mapping[str, str] | None
    ) -> AsyncGenerator[Progress, None]:
        headers = {}
        if auth is not None:
            encoded = base64.urlsafe_b64encode(json.dumps(dict(auth)).encode()).decode()
            headers["X-Registry-Auth"] = encoded
        async with self._exchange("POST", path, query, headers=headers, answer_s=None) as exchange:
            async for line in exchange.lines():
                yield _progress(line)


def _name(text: str, safe: str = "") -> str:
    """A name as part of a path. EngineError if it would be another path."""
    if not text or any(part in ("", ".", "..") for part in text.split("/")):
        raise EngineError.of(400, f"invalid name {text!r}")
    return quote(text, safe=safe)


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _filters(filters: Mapping[str, Sequence[str]] | None) -> str:
    return json.dumps({name: list(values) for name, values in filters.items()}) if filters else ""


def _decoded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Unintelligible.of("the engine's answer is not JSON", data) from None


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise Unintelligible.of("the engine's answer is not an object", repr(value).encode())
    return value


def _list(value: Any) -> list[Object]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Unintelligible.of("the engine's answer is not a list", repr(value).encode())
    return value


def _message(body: bytes) -> str:
    """What the engine says in a refusal."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("message"), str):
        return str(found["message"])
    return body[:200].decode("utf-8", "replace").strip() or "the engine gave no reason"


def _event(line: bytes) -> EngineEvent:
    try:
        found = orjson.loads(line)
        actor = found.get("Actor") or {}
        attributes = actor.get("Attributes") or {}
        time_ns = int(found.get("timeNano") or 0) or int(found.get("time") or 0) * 1_000_000_000
        # Older engines have `id` and `status` only for containers and images.
        id_ = str(actor.get("ID") or found.get("id") or "")
        action = str(found.get("Action") or found.get("status") or "")
        return EngineEvent(str(found.get("Type") or ""), action, id_, attributes, time_ns)
    except (ValueError, AttributeError, TypeError):
        return EngineEvent("unknown", line[:200].decode("utf-8", "replace"), "", {}, 0)


def _progress(line: bytes) -> Progress:
    found = _object(_decoded(line))
    if "error" in found:
        detail = found.get("errorDetail")
        message = detail.get("message") if isinstance(detail, dict) else None
        raise EngineError.of(500, str(message or found["error"]))
    detail = found.get("progressDetail") or {}
    return Progress(
        str(found.get("id") or ""),
        str(found.get("status") or ""),
        int(detail.get("current") or 0),
        int(detail.get("total") or 0),
    )
