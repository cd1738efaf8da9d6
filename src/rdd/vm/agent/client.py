# SPDX-License-Identifier: Apache-2.0
"""Requests to a host agent over its socket, one per connection.

Every request is bounded in time and size: the peer may be an agent that hangs, or another
program that listens on a stale path.
"""

import json
from pathlib import Path
from typing import Any

from rdd.host import unix_http

GROW_S = 180.0  # a file system of a slow guest


class NoAnswer(Exception):
    """The agent did not respond in time, or not in HTTP."""


async def request(
    socket: Path, path: str, *, method: str = "GET", timeout_s: float = 3.0
) -> tuple[int, bytes]:
    """Return the status and the body of a response. Raises NoAnswer."""
    try:
        response, body = await unix_http.request(socket, path, method=method, timeout_s=timeout_s)
    except OSError as error:
        raise NoAnswer(f'"{socket}" did not answer: {error}') from error
    return response.status, body


async def detach(socket: Path, *, timeout_s: float = 3.0) -> bool:
    """Request that an agent exits and leaves its machine running. Raises NoAnswer.

    Returns False if the agent already shuts its machine down.
    """
    status, body = await request(socket, "/v1/let-go", method="POST", timeout_s=timeout_s)
    return 200 <= status < 300 and _members(body).get("letGo") is not False


async def suspend(socket: Path, *, timeout_s: float) -> str:
    """Request that an agent saves its machine's memory and stops it. Raises NoAnswer.

    Returns the reason of a refusal, or an empty string.
    """
    status, body = await request(socket, "/v1/suspend", method="POST", timeout_s=timeout_s)
    answer = _members(body)
    if answer.get("suspended"):
        return ""
    return str(
        answer.get("error") or f"its host agent cannot suspend machines (HTTP status {status})"
    )


async def grow_disk(socket: Path) -> str:
    """Request that an agent grows its machine's disk to the size in the template. Raises NoAnswer.

    Returns the reason of a refusal, or an empty string.
    """
    status, body = await request(socket, "/v1/disk", method="POST", timeout_s=GROW_S)
    answer = _members(body)
    if answer.get("grown"):
        return ""
    return str(answer.get("error") or f"its host agent cannot grow disks (HTTP status {status})")


async def wake(socket: Path, *, timeout_s: float) -> bool:
    """Wake the machine of an agent; return when it runs. Raises NoAnswer.

    Returns False if the agent cannot pause machines: then none is paused.
    """
    status, _ = await request(socket, "/v1/wake", method="POST", timeout_s=timeout_s)
    return status == 200


async def reload_idle_settings(socket: Path) -> None:
    """Let an agent read the settings of idle detection again. Raises NoAnswer."""
    await request(socket, "/v1/idle", method="POST")


def _members(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
