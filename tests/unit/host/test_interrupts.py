# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command silently, wherever it is at that moment."""

import signal
import sys

import pytest
from tests.programs import run_program, with_signals_ignored

_HEAD = """
import os, signal, sys
from rdd.host.interrupts import end_silently, run_interruptible

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class Destructor:
    def __del__(self):
        interrupt()
        sum(range(10))

def generator():
    try:
        yield
    finally:
        interrupt()
        sum(range(10))

def exit_with(command):
    sys.exit(run_interruptible(command))
"""


def run(body: str) -> tuple[int, str, str]:
    done = run_program([sys.executable, "-c", _HEAD + body])
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("def command():\n    interrupt()\n    return 0", id="in the command"),
        pytest.param(
            "def command():\n    d = Destructor()\n    del d\n    return 0", id="in a destructor"
        ),
        pytest.param(
            "def command():\n    g = generator()\n    next(g)\n    del g\n    return 0",
            id="in the cleanup of a generator that is garbage-collected",
        ),
        pytest.param(
            "def command():\n"
            "    import asyncio\n"
            "    async def step():\n"
            "        interrupt()\n"
            "    async def main():\n"
            "        task = asyncio.ensure_future(step())\n"
            "        await asyncio.sleep(60)\n"
            "    return asyncio.run(main())",
            id="in a task",
        ),
        pytest.param(
            "def command():\n    import logging\n    interrupt()\n    return 0", id="with logging"
        ),
    ],
)
def test_interrupt_exits_with_130_and_prints_nothing(body: str) -> None:
    assert run(f"{body}\nexit_with(command)") == (130, "", "")


def test_interrupt_runs_cleanups_and_keeps_the_output() -> None:
    body = """
def command():
    print("begun")
    try:
        interrupt()
    finally:
        print("cleaned up")
exit_with(command)
"""
    assert run(body) == (130, "begun\ncleaned up\n", "")


def test_second_interrupt_ends_a_cleanup_that_blocks() -> None:
    body = """
def command():
    try:
        interrupt()
    finally:
        interrupt()
        print("not reached")
exit_with(command)
"""
    assert run(body) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("body", ["end_silently()", "run_interruptible(lambda: 0)"])
def test_interrupt_before_and_after_the_command_is_silent(body: str) -> None:
    assert run(f"{body}\ninterrupt()") == (-signal.SIGINT, "", "")


def test_exit_code_of_the_command_is_kept() -> None:
    assert run("exit_with(lambda: 7)") == (7, "", "")


def test_other_exceptions_of_destructors_are_reported() -> None:
    body = (
        "class Bad:\n    def __del__(self):\n        1 / 0\nrun_interruptible(lambda: Bad() and 0)"
    )
    code, _, err = run(body)
    assert code == 0
    assert "ZeroDivisionError" in err


def test_ignored_interrupt_stays_ignored() -> None:
    body = "def command():\n    interrupt()\n    return 3\nend_silently()\nexit_with(command)"
    done = run_program(with_signals_ignored([sys.executable, "-c", _HEAD + body]))
    assert (done.returncode, done.stderr) == (3, "")
