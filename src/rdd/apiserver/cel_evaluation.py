# SPDX-License-Identifier: Apache-2.0
"""Evaluation of CEL: on the event loop while it is cheap, in a thread from then on.

Nearly all rules and policies cost less than a handover to a thread, but the budgets of Kubernetes
allow an evaluation of seconds, and the text and the object tell neither. So evaluations start on
the loop with an allowance. When it is spent, they are repeated from the start in a thread: they
have no effects, and the wasted part is short.

This module imports CEL, which most servers do not need: import it where expressions exist.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from rdd import cel
from rdd.apiserver import offload

ALLOWANCE = 10_000
"""Cost of CEL on the event loop: 2 ms as a rule, 16 ms for comparisons of nested objects."""

_ANSWER_WITHIN_S = 30.0
"""The loop answers a thread at once, except when the server has stopped."""

P = ParamSpec("P")
T = TypeVar("T")


async def run(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of some work on `size` bytes that evaluates expressions.

    It MUST be repeatable, and MUST NOT touch what the loop changes, except through `on_loop`.
    """
    if size < offload.OFF_LOOP_BYTES:
        # A write can be subject to hundreds of policies, or to one with thousands of parameters.
        await offload.pause()
        try:
            with cel.interrupted_after(ALLOWANCE):
                return work(*args, **kwargs)
        except cel.Interrupted:
            pass
    return await offload.run(offload.OFF_LOOP_BYTES, work, *args, **kwargs)


def on_loop(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls another one on the running loop, whichever thread calls it."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.get_ident() == thread:
            return function(*args, **kwargs)
        answer: Future[T] = Future()

        def give() -> None:
            try:
                answer.set_result(function(*args, **kwargs))
            except Exception as error:
                answer.set_exception(error)

        loop.call_soon_threadsafe(give)
        return answer.result(_ANSWER_WITHIN_S)

    return call
