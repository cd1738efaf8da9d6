# SPDX-License-Identifier: Apache-2.0
"""Programs of the suite have default signal dispositions, and end with their tests."""

import ast
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import STOP_SIGNALS, TIMEOUT_S, run_program, start_program, with_signals_ignored

ROOT = Path(__file__).parents[2]

STARTERS = {
    "subprocess",
    "multiprocessing",
    "pexpect",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "os.system",
    "os.popen",
    "os.fork",
    "os.posix_spawn",
    "os.posix_spawnp",
    "pty.fork",
    "pty.spawn",
}

# The program that prints which signals it ignores and which are blocked.
STATUS = """
import signal
stop = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
ignored = [n.name for n in stop if signal.getsignal(n) is signal.SIG_IGN]
print(*ignored, *sorted(n.name for n in signal.pthread_sigmask(signal.SIG_BLOCK, ()) if n in stop))
"""

# A session that inherits the signals as a background job of a shell, `nohup` or cron leave them.
SESSION = f"""
import signal, sys
from tests.programs import reset_signals, run_program
reset_signals()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(run_program([sys.executable, "-c", {STATUS!r}], check=True).stdout, end="")
"""


def test_programs_have_default_signals_when_the_session_inherits_ignored_ones() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = with_signals_ignored([sys.executable, "-c"])
    assert run_program([*command, STATUS], check=True).stdout.split() == [
        number.name for number in STOP_SIGNALS
    ]
    assert run_program([*command, SESSION], check=True, env=environment).stdout == "\n"


def test_programs_of_this_session_ignore_no_stop_signal() -> None:
    assert run_program([sys.executable, "-c", STATUS], check=True).stdout == "\n"


def test_a_program_ends_with_its_block_and_takes_its_children_along() -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: SIM117
        with start_program(["sh", "-c", "sleep 600 & echo $!; wait"]) as program:
            (line,) = program.read_until()
            1 / 0  # noqa: B018
    assert program.returncode == -signal.SIGKILL
    assert program.stdout is not None and program.stdout.closed
    deadline = time.monotonic() + TIMEOUT_S
    while _is_running(int(line)):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_program_that_hangs_fails_the_wait() -> None:
    with start_program(["sleep", "600"]) as program:
        with pytest.raises(AssertionError, match=r"ended its output, or 0\.05 s passed"):
            program.read_until(timeout=0.05)
        assert program.wait() == -signal.SIGKILL
    with pytest.raises(AssertionError, match=r"still runs after 0\.05 s"):
        run_program(["sleep", "600"], timeout=0.05)


def _is_running(pid: int) -> bool:
    # An orphan may stay a zombie until init reaps it.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, str(node.module).partition(".")[0]
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)


def test_tests_start_programs_with_the_one_helper() -> None:
    # The programs under tests/data run outside of the session.
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name == "tests/programs.py" or name.startswith("tests/data/"):
            continue
        for line, starter in _names(ast.parse(path.read_text())):
            if starter in STARTERS:
                found.append(f"{name}:{line}: {starter}: use tests.programs")
    assert not found, "\n".join(found)
