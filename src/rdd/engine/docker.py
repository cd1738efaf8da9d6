# SPDX-License-Identifier: Apache-2.0
"""The Docker API over a unix socket.

    docker = Docker(socket)
    await docker.ping()                              # also negotiates the version
    async with docker.events() as events:            # subscribed when the block is entered
        async for event in events: …

Every method is one request. A `Docker` needs no opening and survives restarts of the
engine: a failed request raises a class of `rdd.engine.errors`, and the next one
reconnects and negotiates the version again. Streams are context managers: when the block
is entered the engine has accepted the request. Transfers of images are asynchronous
generators; to leave one early, use `contextlib.aclosing`.

The oldest supported version is 1.41 (Docker 20.10). The newest is the one this client
was written for; engines with later versions still support it.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import orjson

from rdd.engine.errors import (
    EngineError,
    EngineProtocolError,
    EngineUnreachable,
    UnsupportedEngineVersion,
)
from rdd.engine.frames import Chunk, chunks
from rdd.engine.http import EngineExchange, EngineTransport, Hijacked
from rdd.engine.records import ContainerConfig, EngineEvent, ExecConfig, LayerProgress, Object

OLDEST = (1, 41)
NEWEST = (1, 51)

PING_S = 5.0
RESPONSE_S = 60.0
"""The timeout until the response starts, for requests that do not wait."""
STOP_S = 10
"""How long the engine waits for a container to stop before it kills it."""


class Docker:
    """A client of one Docker engine; its errors name `shown_as` instead of another socket."""

    def __init__(self, socket: Path, *, shown_as: Path | None = None) -> None:
        self.socket = socket
        self._transport = EngineTransport(socket, shown_as=shown_as)
        self._prefix = ""
        self._negotiation = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections; open streams stay."""
        await self._transport.close()

    # -- the engine itself

    async def ping(self, *, response_s: float = PING_S) -> str:
        """Negotiate and return the version of the API, such as `1.41`. Raises EngineFailure."""
        async with self._transport.exchange("GET", "/_ping", response_s=response_s) as exchange:
            await exchange.read()
            if exchange.status != 200:
                raise EngineError.of(exchange.status, f"ping returned {exchange.status}")
            spoken = exchange.headers.get("api-version", "")
        version = _version(spoken)
        if version is None:
            raise EngineProtocolError(f"the engine reports invalid Docker API version {spoken!r}")
        if version < OLDEST:
            raise UnsupportedEngineVersion(
                f"the engine supports Docker API version {spoken}; "
                f"rdd needs {OLDEST[0]}.{OLDEST[1]} or later"
            )
        agreed = min(version, NEWEST)
        self._prefix = f"/v{agreed[0]}.{agreed[1]}"
        return self._prefix[2:]

    async def version(self) -> tuple[int, int]:
        """Return the version of the API that is used."""
        return _version(self._prefix[2:] or await self.ping()) or OLDEST

    async def info(self) -> Object:
        """Return system information; `SystemTime` is the engine's clock."""
        return _object(await self._json("GET", "/info"))

    @asynccontextmanager
    async def events(
        self,
        *,
        since: str = "",
        until: str = "",
        filters: Mapping[str, Sequence[str]] | None = None,
    ) -> AsyncGenerator[AsyncIterator[EngineEvent], None]:
        """Yield events from `since` on (seconds with nanoseconds, of the engine's clock).

        Without `until` the stream lasts until the connection ends, with EngineUnreachable or
        silently. A malformed line is an event of type `unknown` with the line as its action.
        """
        query = {"since": since, "until": until, "filters": _filters(filters)}
        async with (
            self._exchange("GET", "/events", query) as exchange,
            aclosing(exchange.lines()) as lines,
        ):
            yield (_event(line) async for line in lines)

    # -- containers

    async def containers(self, *, label: str = "") -> list[Object]:
        """Return summaries of all containers, or of those with a label (`name=value`)."""
        query = {"all": "1", "filters": _filters({"label": [label]} if label else None)}
        return _list(await self._json("GET", "/containers/json", query))

    async def inspect_container(self, id_: str) -> Object:
        return _object(await self._json("GET", f"/containers/{quoted_name(id_)}/json"))

    async def create_container(self, config: ContainerConfig, *, name: str = "") -> str:
        """Create a container and return its ID."""
        body = config.body()
        made = _object(await self._json("POST", "/containers/create", {"name": name}, body))
        return str(made["Id"])

    async def start_container(self, id_: str) -> None:
        """Start a container; a no-op if it runs."""
        await self._do("POST", f"/containers/{quoted_name(id_)}/start")

    async def stop_container(self, id_: str, *, grace_s: int = STOP_S) -> None:
        """Stop a container, by force after the grace period; a no-op if it does not run."""
        path = f"/containers/{quoted_name(id_)}/stop"
        await self._do("POST", path, {"t": str(grace_s)}, response_s=grace_s + RESPONSE_S)

    async def restart_container(self, id_: str, *, grace_s: int = STOP_S) -> None:
        """Stop a container and start it again."""
        path = f"/containers/{quoted_name(id_)}/restart"
        await self._do("POST", path, {"t": str(grace_s)}, response_s=grace_s + RESPONSE_S)

    async def pause_container(self, id_: str) -> None:
        """Freeze the processes of a container."""
        await self._do("POST", f"/containers/{quoted_name(id_)}/pause")

    async def unpause_container(self, id_: str) -> None:
        """Resume the processes of a container."""
        await self._do("POST", f"/containers/{quoted_name(id_)}/unpause")

    async def remove_container(self, id_: str, *, force: bool = False) -> None:
        """Remove a container; a running one requires force."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/containers/{quoted_name(id_)}", query)

    async def resize_container(self, id_: str, *, height: int, width: int) -> None:
        """Set the terminal size of a container."""
        query = {"h": str(height), "w": str(width)}
        await self._do("POST", f"/containers/{quoted_name(id_)}/resize", query)

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
        """Yield the output of a container; `is_terminal` is its `Config.Tty`."""
        query = {
            "stdout": "1",
            "stderr": "1",
            "follow": "1" if follow else "0",
            "tail": tail,
            "since": since,
            "timestamps": "1" if timestamps else "",
        }
        async with (
            self._exchange("GET", f"/containers/{quoted_name(id_)}/logs", query) as exchange,
            aclosing(exchange.chunks()) as pieces,
        ):
            yield chunks(pieces, is_terminal=is_terminal)

    @asynccontextmanager
    async def stats(
        self, id_: str, *, stream: bool = True
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Yield the resource usage of a container as lines of JSON, once or every second."""
        query = {"stream": "1" if stream else "0", "one-shot": "" if stream else "1"}
        async with (
            self._exchange("GET", f"/containers/{quoted_name(id_)}/stats", query) as exchange,
            aclosing(exchange.lines()) as lines,
        ):
            yield lines

    @asynccontextmanager
    async def attach(self, id_: str) -> AsyncGenerator[Hijacked, None]:
        """Attach to the streams of the first process of a container."""
        query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        async with self._hijack(f"/containers/{quoted_name(id_)}/attach", query) as hijacked:
            yield hijacked

    # -- commands in containers

    async def create_exec(self, id_: str, config: ExecConfig) -> str:
        """Create a command in a running container and return its ID."""
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
        made = await self._json("POST", f"/containers/{quoted_name(id_)}/exec", {}, body)
        return str(_object(made)["Id"])

    @asynccontextmanager
    async def start_exec(
        self, exec_id: str, *, is_terminal: bool
    ) -> AsyncGenerator[Hijacked, None]:
        """Start a created command; the connection carries its streams."""
        body = {"Detach": False, "Tty": is_terminal}
        async with self._hijack(f"/exec/{quoted_name(exec_id)}/start", {}, body) as hijacked:
            yield hijacked

    async def resize_exec(self, exec_id: str, *, height: int, width: int) -> None:
        """Set the terminal size of a command."""
        query = {"h": str(height), "w": str(width)}
        await self._do("POST", f"/exec/{quoted_name(exec_id)}/resize", query)

    async def inspect_exec(self, exec_id: str) -> Object:
        """Return the state of a command; `ExitCode` is None while it runs."""
        return _object(await self._json("GET", f"/exec/{quoted_name(exec_id)}/json"))

    # -- images

    async def images(self) -> list[Object]:
        """Return summaries of all images, including intermediate ones."""
        return _list(await self._json("GET", "/images/json", {"all": "1"}))

    async def inspect_image(self, reference: str) -> Object:
        return _object(await self._json("GET", f"/images/{quoted_name(reference, '/:@')}/json"))

    async def remove_image(self, reference: str, *, force: bool = False) -> None:
        """Remove a tag, and with the last one the image; EngineConflict if it is in use."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/images/{quoted_name(reference, '/:@')}", query)

    async def pull(
        self, repository: str, tag: str, *, auth: Mapping[str, str] | None = None
    ) -> AsyncGenerator[LayerProgress, None]:
        """Pull an image; `tag` may be a digest. The stream raises EngineError on failure."""
        query = {"fromImage": repository, "tag": tag}
        async for progress in self._transfer("/images/create", query, auth):
            yield progress

    async def push(
        self, repository: str, tag: str, *, auth: Mapping[str, str] | None = None
    ) -> AsyncGenerator[LayerProgress, None]:
        """Push a tag to its registry. The stream raises EngineError on failure."""
        path = f"/images/{quoted_name(repository, '/:@')}/push"
        # The API requires the header even without credentials.
        async for progress in self._transfer(path, {"tag": tag}, auth or {}):
            yield progress

    # -- volumes

    async def volumes(self, *, label: str = "") -> list[Object]:
        """Return all volumes, or those with a label (`name=value`)."""
        query = {"filters": _filters({"label": [label]} if label else None)}
        return _list(_object(await self._json("GET", "/volumes", query)).get("Volumes") or [])

    async def inspect_volume(self, name: str) -> Object:
        return _object(await self._json("GET", f"/volumes/{quoted_name(name)}"))

    async def create_volume(
        self,
        name: str,
        *,
        driver: str = "local",
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Object:
        """Create a volume, or return the one of that name; an empty name is generated."""
        body: Object = {"Name": name, "Driver": driver}
        body |= {"Labels": dict(labels or {}), "DriverOpts": dict(options or {})}
        return _object(await self._json("POST", "/volumes/create", {}, body))

    async def remove_volume(self, name: str, *, force: bool = False) -> None:
        """Remove a volume; EngineConflict if a container uses it."""
        query = {"force": "1"} if force else {}
        await self._do("DELETE", f"/volumes/{quoted_name(name)}", query)

    # -- any other request

    async def call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> Any:
        """Send a request of the Docker API; return the JSON of its response, None without one."""
        return await self._json(method, path, query, body)

    def open(
        self, method: str, path: str, query: Mapping[str, str], *, body: bytes = b""
    ) -> AbstractAsyncContextManager[EngineExchange]:
        """Send a request whose response is a stream."""
        return self._exchange(method, path, query, body=body)

    @asynccontextmanager
    async def upload(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        pieces: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str] | None = None,
        repeated: Mapping[str, Sequence[str]] | None = None,
    ) -> AsyncGenerator[EngineExchange, None]:
        """Send a request whose body is a stream; raise EngineError if the engine rejects it."""
        if not self._prefix:
            await self.ping()
        given = {name: value for name, value in query.items() if value}
        target = f"{self._prefix}{path}?{urlencode({**given, **(repeated or {})}, doseq=True)}"
        async with self._transport.upload(method, target, headers or {}, pieces) as exchange:
            if exchange.status >= 400:
                raise EngineError.of(exchange.status, _message(await exchange.read()))
            yield exchange

    # -- internals

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        response_s: float | None = RESPONSE_S,
    ) -> AsyncGenerator[EngineExchange, None]:
        """Send a request and raise EngineError if the engine rejects it."""
        if not self._prefix:
            async with self._negotiation:
                if not self._prefix:
                    await self.ping()
        given = urlencode({name: value for name, value in query.items() if value})
        target = f"{self._prefix}{path}?{given}" if given else f"{self._prefix}{path}"
        try:
            async with self._transport.exchange(
                method, target, headers=headers or {}, body=body, response_s=response_s
            ) as exchange:
                if exchange.status >= 400:
                    raise EngineError.of(exchange.status, _message(await exchange.read()))
                yield exchange
        except EngineUnreachable:
            self._prefix = ""  # the next engine may have another version
            raise

    async def _json(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> Any:
        data = b"" if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/json"} if data else None
        async with self._exchange(
            method, path, query or {}, headers=headers, body=data
        ) as exchange:
            data = await exchange.read()
            return _decoded(data) if data else None

    async def _do(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        response_s: float = RESPONSE_S,
    ) -> None:
        async with self._exchange(method, path, query or {}, response_s=response_s) as exchange:
            await exchange.read()

    @asynccontextmanager
    async def _hijack(
        self, path: str, query: Mapping[str, str], body: object = None
    ) -> AsyncGenerator[Hijacked, None]:
        data = b"" if body is None else orjson.dumps(body)
        headers = {"Connection": "Upgrade", "Upgrade": "tcp", "Content-Type": "application/json"}
        async with self._exchange("POST", path, query, headers=headers, body=data) as exchange:
            # Some versions send 200 and switch to raw bytes anyway.
            if exchange.status not in (101, 200):
                raise EngineProtocolError(f"unexpected status {exchange.status} of an upgrade")
            hijacked = exchange.hijack()
            try:
                yield hijacked
            finally:
                hijacked.close()

    async def _transfer(
        self, path: str, query: Mapping[str, str], auth: Mapping[str, str] | None
    ) -> AsyncGenerator[LayerProgress, None]:
        headers = {}
        if auth is not None:
            encoded = base64.urlsafe_b64encode(json.dumps(dict(auth)).encode()).decode()
            headers["X-Registry-Auth"] = encoded
        async with self._exchange(
            "POST", path, query, headers=headers, response_s=None
        ) as exchange:
            async for line in exchange.lines():
                yield _progress(line)


def quoted_name(text: str, safe: str = "") -> str:
    """Quote a name for a path. Raises EngineError if it would leave the path."""
    if not text or any(part in ("", ".", "..") for part in text.split("/")):
        raise EngineError.of(400, f"invalid name {text!r}")
    return quote(text, safe=safe)


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if _is_short(major) and _is_short(minor) else None


def _is_short(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _filters(filters: Mapping[str, Sequence[str]] | None) -> str:
    return json.dumps({name: list(values) for name, values in filters.items()}) if filters else ""


def _decoded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise EngineProtocolError.of("the engine's response is not JSON", data) from None


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise EngineProtocolError.of("the engine's response is not an object", repr(value).encode())
    return value


def _list(value: Any) -> list[Object]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise EngineProtocolError.of("the engine's response is not a list", repr(value).encode())
    return value


def _message(body: bytes) -> str:
    """Return the message of an error response."""
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


def _progress(line: bytes) -> LayerProgress:
    found = _object(_decoded(line))
    if "error" in found:
        detail = found.get("errorDetail")
        message = detail.get("message") if isinstance(detail, dict) else None
        raise EngineError.of(500, str(message or found["error"]))
    detail = found.get("progressDetail") or {}
    return LayerProgress(
        str(found.get("id") or ""),
        str(found.get("status") or ""),
        int(detail.get("current") or 0),
        int(detail.get("total") or 0),
    )
