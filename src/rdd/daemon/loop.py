# SPDX-License-Identifier: Apache-2.0
"""The event loop of the daemon: uvloop where it is installed, asyncio's own otherwise.

A process without memory ends, as after kill -9, which loses nothing: callbacks that raise
MemoryError leave the loop in a state that nothing repairs. In particular, uvloop never accepts a
connection again once it had no memory to accept one, so the daemon would run and not respond.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

log = logging.getLogger("rdd.daemon")


def runner() -> asyncio.Runner:
    """Return a runner with the fastest available loop."""
    return asyncio.Runner(loop_factory=_new_loop)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        made: asyncio.AbstractEventLoop = asyncio.new_event_loop()
    else:
        made = uvloop.new_event_loop()
    made.set_exception_handler(handle_exception)
    return made


def handle_exception(
    loop: asyncio.AbstractEventLoop,
    context: dict[str, Any],
    *,
    leave: Callable[[int], object] = os._exit,
) -> None:
    """End the process for want of memory; log every other exception of a callback."""
    if isinstance(context.get("exception"), MemoryError):
        try:
            log.error("out of memory (%s): exiting", context.get("message"))
        finally:  # the line may need the memory that there is not
            leave(1)
        return
    loop.default_exception_handler(context)
