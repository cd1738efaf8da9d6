# SPDX-License-Identifier: Apache-2.0
"""A loop whose callbacks have no memory ends the process; other exceptions are logged."""

import asyncio

import pytest

from rdd.daemon import loop


def test_process_without_memory_ends(caplog: pytest.LogCaptureFixture) -> None:
    left: list[int] = []
    with loop.runner() as runner:
        found = runner.get_loop()
        context = {"message": "Unhandled exception in event loop", "exception": MemoryError()}
        loop.handle_exception(found, context, leave=left.append)
    assert left == [1]
    assert caplog.messages == ["out of memory (Unhandled exception in event loop): exiting"]


def test_other_exceptions_of_callbacks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("a defect")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with loop.runner() as runner:
        runner.run(main())
    assert "a defect" in caplog.text
