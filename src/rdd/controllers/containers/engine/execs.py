# SPDX-License-Identifier: Apache-2.0
"""`engine/exec`: runs a command in a container, over a WebSocket with the framing of Kubernetes.

    GET /passthrough/engine/exec/<id>?command=sh&command=-c&command=ls
        &stdin=false&stdout=true&stderr=true&tty=false&user=&workdir=&env=A=b

The first byte of a message is its channel:

    0 stdin    1 stdout    2 stderr    3 outcome (a Status)    4 terminal size
    255        v5 only: end of the channel whose number is the second byte

With a terminal all output uses channel 1. The last message is a Status: Success, or
the exit code in the form of Kubernetes, so client-go can be the client.
"""

import logging
from typing import Any, Final

import orjson

from rdd.controllers.containers.engine.background_tasks import first_of
from rdd.controllers.containers.engine.endpoints import (
    EndpointError,
    EndpointSocket,
    EngineHandle,
    container_id,
    endpoint,
    flag,
    opened,
    wants_socket,
)
from rdd.engine import Docker, EngineFailure, ExecConfig, Hijacked
from rdd.engine.frames import Deframer
from rdd.http.exchange import Exchange
from rdd.http.responses import Response

log = logging.getLogger("rdd.engine")

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_MAX_MESSAGE = 1024 * 1024


class ExecEndpoint:
    """The endpoint for commands."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle

    @endpoint
    async def exec(self, exchange: Exchange, rest: str) -> Response | None:
        """Run a command."""
        id_ = container_id(rest)
        config = _config(exchange)
        docker = self._handle.get()
        if not wants_socket(exchange):
            raise EndpointError(400, "exec requires a WebSocket")
        offered = exchange.headers.get("Sec-WebSocket-Protocol")
        if not any(name.strip() in PROTOCOLS for name in offered.split(",")):
            raise EndpointError(400, f"the subprotocol must be one of {', '.join(PROTOCOLS)}")
        try:
            exec_id = await docker.create_exec(id_, config)
            running = docker.start_exec(exec_id, is_terminal=config.is_terminal)
            hijacked = await running.__aenter__()
        except EngineFailure as error:
            raise EndpointError.of(error) from error
        try:
            socket = opened(exchange, protocols=PROTOCOLS, max_message=_MAX_MESSAGE)
            await _ExecSession(docker, exec_id, hijacked, socket, config).serve()
            return None
        finally:
            await running.__aexit__(None, None, None)


class _ExecSession:
    """A running command."""

    def __init__(
        self,
        docker: Docker,
        exec_id: str,
        hijacked: Hijacked,
        socket: EndpointSocket,
        config: ExecConfig,
    ) -> None:
        self._docker = docker
        self._exec_id = exec_id
        self._hijacked = hijacked
        self._socket = socket
        self._config = config

    async def serve(self) -> None:
        """Copy in both directions until the command or the client ends."""
        is_failure = False
        try:
            await first_of(
                self._to_client(), self._socket.listen(self._take), self._socket.keep_alive()
            )
        except (EngineFailure, ConnectionError, TimeoutError) as error:
            log.debug("exec aborted: %s", error)
            is_failure = True
        await self._socket.close(is_failure=is_failure)

    async def _to_client(self) -> None:
        deframer = None if self._config.is_terminal else Deframer()
        while piece := await self._hijacked.read():
            if deframer is None:
                await self._socket.send(bytes((STDOUT,)) + piece)
                continue
            for chunk in deframer.feed(piece):
                await self._socket.send(bytes((chunk.stream,)) + chunk.data)
        code = (await self._docker.inspect_exec(self._exec_id)).get("ExitCode")
        await self._socket.send(bytes((ERROR,)) + orjson.dumps(exit_status(code)))

    async def _take(self, message: bytes) -> None:
        if not message:
            return
        channel, data = message[0], message[1:]
        if channel == STDIN and self._config.wants_stdin:
            await self._hijacked.write(data)
        elif channel == RESIZE and self._config.is_terminal:
            size = _size(data)
            if size is not None:
                await self._resize(*size)
        elif channel == CLOSE and data == bytes((STDIN,)):
            self._hijacked.write_eof()

    async def _resize(self, width: int, height: int) -> None:
        try:
            await self._docker.resize_exec(self._exec_id, height=height, width=width)
        except EngineFailure as error:
            log.debug("terminal not resized: %s", error)  # the command may have ended


def exit_status(code: Any) -> dict[str, Any]:
    """Return the Status of an exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    if not isinstance(code, int):
        message = "the engine does not report an exit code"
        return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _config(exchange: Exchange) -> ExecConfig:
    command = exchange.query.get("command", [])
    if not command:
        raise EndpointError(400, "command is required")
    is_terminal = flag(exchange, "tty", False)
    return ExecConfig(
        command,
        is_terminal=is_terminal,
        wants_stdin=flag(exchange, "stdin", False),
        wants_stdout=flag(exchange, "stdout", True),
        # A terminal has one output.
        wants_stderr=flag(exchange, "stderr", True) or is_terminal,
        environment=exchange.query.get("env", []),
        workdir=exchange.first("workdir"),
        user=exchange.first("user"),
    )


def _size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a terminal; None if invalid."""
    try:
        found = orjson.loads(data)
        width, height = int(found["Width"]), int(found["Height"])
    except (ValueError, KeyError, TypeError):
        return None
    return (width, height) if 0 < width < 65536 and 0 < height < 65536 else None
