# SPDX-License-Identifier: Apache-2.0
"""`rdd exec`: run a command in a container with the caller's stdin, stdout and stderr.

The protocol is that of `kubectl exec`: one WebSocket whose messages start with a channel
number. With -t the local terminal is in raw mode and its size is forwarded.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlencode

from rdd.api import names
from rdd.cli.commands.engine.declarations import EXEC
from rdd.cli.commands.engine.objects import find_container
from rdd.cli.commands.limavm.shell import parse
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import FAILED, CommandError
from rdd.cli.framework.types import Call, Flags, command_path

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

    from rdd.client.kubeconfig import ConnectionConfig

_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECE = 65536


def run(call: Call) -> int:
    parsed = parse(call, EXEC)
    if parsed is None:
        return 0
    flags, words = parsed
    if len(words) < 2:
        where = command_path(call.path)
        raise CommandError(
            f"{where} requires at least 2 arg(s), received {len(words)}; "
            f"usage: {where} {EXEC.usage}"
        )
    name, *command = words
    if command[0] == "--":
        command = command[1:]
    if flags.truth("tty") and flags.truth("interactive") and not sys.stdin.isatty():
        raise CommandError("the input is not a terminal; omit -t")
    with connected(call, creates=False) as connection:
        id_ = find_container(connection, name)["metadata"]["name"]
        config = connection.config
    query = _query(flags, command)
    session = _Session(
        config, f"{names.PASSTHROUGH_PREFIX}engine/exec/{id_}?{urlencode(query)}", flags
    )
    call.out.flush()
    with _raw_terminal(flags.truth("tty") and flags.truth("interactive")):
        return asyncio.run(session.run())


def _query(flags: Flags, command: list[str]) -> list[tuple[str, str]]:
    query = [("command", word) for word in command]
    if flags.truth("interactive"):
        query.append(("stdin", "true"))
    if flags.truth("tty"):
        query.append(("tty", "true"))
    for name in ("user", "workdir"):
        if flags.text(name):
            query.append((name, flags.text(name)))
    return query + [("env", variable) for variable in flags.texts("env")]


class _Session:
    """One remote command and its streams."""

    def __init__(self, config: "ConnectionConfig", path: str, flags: Flags) -> None:
        self._config = config
        self._path = path
        self._is_terminal = flags.truth("tty")
        self._wants_stdin = flags.truth("interactive")

    async def run(self) -> int:
        """Copy streams until the command exits; return its exit code."""
        async with self._connected() as socket:
            beside = []
            loop = asyncio.get_running_loop()
            if self._wants_stdin:
                beside.append(loop.create_task(self._send_input(socket)))
            if self._is_terminal and sys.stdout.isatty():
                beside.append(loop.create_task(self._send_sizes(socket)))
            try:
                return await self._receive(socket)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _connected(self) -> "AsyncIterator[ClientWebSocketResponse]":
        import aiohttp

        from rdd.client.tls import client_context

        config = self._config
        tls = client_context(config)
        headers = {"Authorization": f"Bearer {config.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            try:
                socket = await session.ws_connect(
                    config.server + self._path, protocols=(_PROTOCOL,), ssl=tls, max_msg_size=0
                )
            except aiohttp.WSServerHandshakeError:
                # aiohttp does not read the body of a failed handshake, which has the reason.
                raise CommandError(await self._refusal(session, tls)) from None
            except aiohttp.ClientError as error:
                raise CommandError(f"cannot reach the control plane: {error}") from error
            try:
                yield socket
            finally:
                await socket.close()

    async def _refusal(self, session: Any, tls: Any) -> str:
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Protocol": _PROTOCOL,
        }
        async with session.get(
            self._config.server + self._path, headers=headers, ssl=tls
        ) as answer:
            return str((await answer.text()).strip())

    async def _receive(self, socket: "ClientWebSocketResponse") -> int:
        from aiohttp import WSMsgType

        outputs: dict[int, BinaryIO] = {_STDOUT: sys.stdout.buffer, _STDERR: sys.stderr.buffer}
        async for message in socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel in outputs:
                outputs[channel].write(data)
                outputs[channel].flush()
            elif channel == _ERROR and data:
                return _exit_code(data)
        raise CommandError("the connection closed before the command exited")

    async def _send_input(self, socket: "ClientWebSocketResponse") -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        try:
            await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", closefd=False)
            )
        except ValueError:  # a regular file never blocks
            while piece := sys.stdin.buffer.read(_PIECE):
                await socket.send_bytes(bytes((_STDIN,)) + piece)
        else:
            while piece := await reader.read(_PIECE):
                await socket.send_bytes(bytes((_STDIN,)) + piece)
        await socket.send_bytes(bytes((_CLOSE, _STDIN)))

    async def _send_sizes(self, socket: "ClientWebSocketResponse") -> None:
        changed = asyncio.Event()
        changed.set()
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
        while True:
            await changed.wait()
            changed.clear()
            size = os.get_terminal_size(sys.stdout.fileno())
            text = f'{{"Width":{size.columns},"Height":{size.lines}}}'
            await socket.send_bytes(bytes((_RESIZE,)) + text.encode())


def _exit_code(data: bytes) -> int:
    import json

    try:
        status = json.loads(data)
    except ValueError:
        raise CommandError("cannot parse the exit status of the command") from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"])
    raise CommandError(str(status.get("message") or "the command failed"), exit_code=FAILED)


@contextlib.contextmanager
def _raw_terminal(enabled: bool) -> Iterator[None]:
    """Put the terminal in raw mode, so that the command receives Ctrl-C, and restore it."""
    if not enabled:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keeps type-ahead
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
