# SPDX-License-Identifier: Apache-2.0
"""The event loop of the daemon: uvloop where it is installed, asyncio's own otherwise."""

import asyncio


def runner() -> asyncio.Runner:
    """Return a runner with the fastest available loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
