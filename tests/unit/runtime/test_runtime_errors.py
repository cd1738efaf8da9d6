# SPDX-License-Identifier: Apache-2.0
"""Error messages for the log."""

import asyncio

import pytest

from rdd.api import errors
from rdd.runtime.controller import error_text


async def test_shows_errors_of_tasks_without_their_group() -> None:
    async def fail(what: str) -> None:
        raise errors.InternalError(what)

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fail("the disk is full"))
    assert error_text(caught.value) == "the disk is full"


def test_shows_a_named_group_with_each_of_its_errors() -> None:
    group = ExceptionGroup("objects of x", [errors.InternalError("a"), KeyError()])
    assert error_text(group) == "objects of x: a; KeyError"
