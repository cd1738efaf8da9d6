# SPDX-License-Identifier: Apache-2.0
"""Errors in the words of a log."""

import asyncio

import pytest

from rdd.api import errors
from rdd.runtime.controller import error_text


async def test_errors_of_tasks_are_told_without_their_group() -> None:
    async def fail(what: str) -> None:
        raise errors.InternalError(what)

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fail("the disk is full"))
    assert error_text(caught.value) == "the disk is full"


def test_a_group_that_says_what_it_is_about_is_told_with_each_of_its_errors() -> None:
    group = ExceptionGroup("objects of x", [errors.InternalError("a"), KeyError()])
    assert error_text(group) == "objects of x: a; KeyError"
