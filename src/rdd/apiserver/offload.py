# SPDX-License-Identifier: Apache-2.0
"""Work on large objects, away from the event loop.

Decoding, merging and validating an object is a computation without a pause: 40,000 labels or
schema properties take hundreds of milliseconds, in which no other request is answered. For objects
from `OFF_LOOP_BYTES` on such steps run in a thread, and the loop gets its turn every few
milliseconds. Small objects stay on the loop, where they cost no handover.

Functions that are passed here MUST NOT touch what the loop changes: they get objects of their
own and return new ones.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

OFF_LOOP_BYTES = 32 * 1024
TURN_S = 0.005
"""How long small steps follow each other before other tasks get their turn."""
_THREADS = 2

P = ParamSpec("P")
T = TypeVar("T")

_executor: ThreadPoolExecutor | None = None
_turn_began: float | None = None
"""When the first small step of this turn of the event loop began."""


async def run(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of some work on `size` bytes, in a thread if that is much."""
    if size < OFF_LOOP_BYTES:
        return work(*args, **kwargs)
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="rdd-objects")
    task = partial(copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_executor, task)


async def pause() -> None:
    """Let other tasks run if this turn of the loop has become long; called between small steps."""
    global _turn_began
    now = time.perf_counter()
    if _turn_began is None:
        _turn_began = now
        asyncio.get_running_loop().call_soon(_end_turn)
    elif now - _turn_began > TURN_S:
        _end_turn()
        await asyncio.sleep(0)


def _end_turn() -> None:
    global _turn_began
    _turn_began = None


async def check(size: int, work: Callable[[], T], *, has_rules: bool) -> T:
    """Return the result of a validation; one with CEL rules may go on in a thread."""
    if not has_rules:
        return await run(size, work)
    from rdd.apiserver import cel_evaluation  # imports CEL, as the rules do

    return await cel_evaluation.run(size, work)
