# SPDX-License-Identifier: Apache-2.0
"""Talking to a host agent over its socket: HTTP/1.1, one request per connection.

Small and bounded on purpose: the other side may be an agent that hangs, a stranger that
listens on a stale path, or nobody.
"""

import asyncio
import json
from pathlib import Path

_ANSWER_LIMIT = 1 << 20
_REQUEST = (
    "{method} {path} HTTP/1.1\r\nHost: agent\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class NoAnswer(Exception):
    """Nobody answered in time, or not in HTTP."""


async def request(
    socket: Path, path: str, *, method: str = "GET", timeout_s: float = 3.0
) -> tuple[int, bytes]:
    """The status and body of an answer. Raises NoAnswer."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(socket, _REQUEST.format(method=method, path=path))
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise NoAnswer(f'"{socket}" did not answer: {error or type(error).__name__}') from error


async def let_go(socket: Path, *, timeout_s: float = 3.0) -> bool:
    """Ask an agent to leave its machine running and exit; whether it agreed. Raises NoAnswer."""
    status, body = await request(socket, "/v1/let-go", method="POST", timeout_s=timeout_s)
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {}
    # One that is shutting its machine down already says that it does not.
    return 200 <= status < 300 and isinstance(answer, dict) and answer.get("letGo") is not False


async def suspend(socket: Path, *, timeout_s: float) -> str:
    """Ask an agent to keep its machine's memory and end it; why not, or nothing.

    Raises NoAnswer.
    """
    status, body = await request(socket, "/v1/suspend", method="POST", timeout_s=timeout_s)
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {}
    if not isinstance(answer, dict) or not answer.get("suspended"):
        refusal = answer.get("error") if isinstance(answer, dict) else ""
        return str(refusal or f"its host agent cannot suspend machines (HTTP status {status})")
    return ""


async def _exchange(socket: Path, text: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=_ANSWER_LIMIT)
    try:
        writer.write(text.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        return status, await reader.read(_ANSWER_LIMIT)
    finally:
        writer.close()
