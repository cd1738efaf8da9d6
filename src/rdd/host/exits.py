# SPDX-License-Identifier: Apache-2.0
"""Waiting for the end of a process without asking again and again.

On Linux a pidfd becomes readable when its process ends, whoever its parent is, so waiting
costs nothing. Elsewhere kqueue tells the same; where neither is available the process is
looked for twice a second.
"""

import asyncio
import os
import select
import sys
from typing import Any

from rdd.host.processes import Identity, is_alive

_LOOK_AGAIN_S = 0.5


async def wait_ended(process: Identity) -> None:
    """Return when exactly this process has ended; a zombie has."""
    descriptor = _descriptor(process)
    if descriptor < 0:
        while is_alive(process):  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(_LOOK_AGAIN_S)
        return
    try:
        # Checked after opening: the descriptor is that of whoever has the id now.
        if not is_alive(process):
            return
        await _readable(descriptor)
    finally:
        os.close(descriptor)


async def ended_within(process: Identity, timeout_s: float) -> bool:
    """Whether the process has ended before the time is over."""
    if not is_alive(process):
        return True
    if timeout_s <= 0:
        return False
    try:
        async with asyncio.timeout(timeout_s):
            await wait_ended(process)
    except TimeoutError:
        return not is_alive(process)
    return True


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    loop.add_reader(descriptor, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(descriptor)


def _descriptor(process: Identity) -> int:
    """Something to read from when the process has ended; -1 if there is nothing like it."""
    try:
        if sys.platform == "linux":
            return os.pidfd_open(process.pid)
        return _kqueue(process.pid)
    except OSError:  # it has ended already, or the system is too old
        return -1


def _kqueue(pid: int) -> int:
    kqueue: Any = getattr(select, "kqueue", None)
    if kqueue is None:
        return -1
    queue = kqueue()
    select_any: Any = select
    event = select_any.kevent(
        pid,
        filter=select_any.KQ_FILTER_PROC,
        flags=select_any.KQ_EV_ADD | select_any.KQ_EV_ONESHOT,
        fflags=select_any.KQ_NOTE_EXIT,
    )
    try:
        queue.control([event], 0)
        return os.dup(queue.fileno())
    finally:
        queue.close()
