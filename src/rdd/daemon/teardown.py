# SPDX-License-Identifier: Apache-2.0
"""Steps of the teardown of a control plane, which must not keep the others from running."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from rdd.api.errors import ApiError

log = logging.getLogger("rdd.daemon")


async def attempt(step: Callable[[], Awaitable[None]]) -> None:
    """Run a write of the teardown; if the disk is full, the teardown continues."""
    try:
        await step()
    except ApiError as error:
        log.warning("during shutdown: %s", error)


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
