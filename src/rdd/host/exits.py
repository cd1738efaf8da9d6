# SPDX-License-Identifier: Apache-2.0
"""Wait for the end of a process without polling.

On Linux a pidfd becomes readable when its process ends, also if it is not a child. Elsewhere
kqueue reports the same; without either the process is polled twice a second.
"""

import asyncio
import os
import select
import sys
from typing import Any

from rdd.host.processes import Identity, is_alive

_POLL_S = 0.5


async def wait_ended(process: Identity) -> None:
    """Return when exactly this process has ended; a zombie has ended."""
    descriptor = _descriptor(process)
    if descriptor < 0:
        while is_alive(process):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(_POLL_S)
        return
    try:
        # Checked after opening: another process may have been given the id.
        if not is_alive(process):
            return
        await _readable(descriptor)
    finally:
        os.close(descriptor)


async def ended_within(process: Identity, timeout_s: float) -> bool:
    """Return whether the process ends within `timeout_s`."""
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
    """Return a descriptor that becomes readable at the end of the process, or -1."""
    try:
        if sys.platform == "linux":
            return os.pidfd_open(process.pid)
        return _kqueue(process.pid)
    except OSError:  # the process has ended, or the kernel is too old
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
