# SPDX-License-Identifier: Apache-2.0
"""Programs that run to their end: output, failures, no process left behind."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rdd.daemon import loop
from rdd.host import commands
from rdd.host.errors import HostError
from rdd.host.processes import identity

TALK = "cat; echo out; echo one >&2; echo two >&2; echo three >&2; exit $0"


async def test_program_gets_its_input_and_its_output_is_captured() -> None:
    now = commands.run_blocking("sh", "-c", TALK, "0", text="in\n", timeout_s=120)
    later = await commands.run("sh", "-c", TALK, "0", text="in\n", timeout_s=120)
    assert now == later
    assert now.checked() == "in\nout\n"


@pytest.mark.parametrize("runner", [asyncio.Runner, loop.runner], ids=["asyncio", "daemon"])
def test_program_need_not_read_its_input(runner: Callable[[], asyncio.Runner]) -> None:
    async def run() -> set[int]:
        text = "x" * 1_000_000
        answers = [await commands.run("true", text=text, timeout_s=120) for _ in range(10)]
        return {answer.status for answer in answers}

    with runner() as running:
        assert running.run(run()) == {0}


async def test_failure_names_the_command_and_the_end_of_its_errors() -> None:
    with pytest.raises(HostError, match=r"^sh -c 'cat; .*' 3: two / three$"):
        commands.run_blocking("/bin/sh", "-c", TALK, "3", timeout_s=120).checked()
    answer = await commands.run("sh", "-c", "exit 4", timeout_s=120)
    with pytest.raises(HostError, match=r"^sh -c 'exit 4': exit status 4$"):
        answer.checked()


async def test_missing_program_is_named_with_its_remedy() -> None:
    expected = r'^the program "no-such-program" is not installed; buy one$'
    with pytest.raises(HostError, match=expected):
        commands.run_blocking("no-such-program", timeout_s=120, remedy="buy one")
    with pytest.raises(HostError, match=expected):
        await commands.run("no-such-program", timeout_s=120, remedy="buy one")


def test_file_that_is_not_a_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=rf'^failed to start "{tmp_path}": Permission denied$'):
        commands.run_blocking(tmp_path, timeout_s=120)


async def test_program_is_killed_at_its_timeout() -> None:
    with pytest.raises(commands.TimedOut, match=r"^sleep did not end within 0.05 s$"):
        commands.run_blocking("sleep", "100", timeout_s=0.05)
    with pytest.raises(commands.TimedOut, match=r"^sleep did not end within 0.05 s$"):
        await commands.run("sleep", "100", timeout_s=0.05)


async def test_program_is_killed_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    script = f"echo $$ > {pid_file}; exec sleep 100"
    task = asyncio.create_task(commands.run("sh", "-c", script, timeout_s=100))
    pid = int(await asyncio.to_thread(pid_file.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert identity(pid) is None


def test_programs_are_found_on_the_path_and_elsewhere(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.symlink_to("/bin/sh")
    assert commands.find("tool", {"PATH": str(tmp_path)}) == program
    assert commands.find("tool", {"PATH": "/nowhere"}) is None
    assert commands.find("tool", {"PATH": "/nowhere"}, also=[str(tmp_path)]) == program
