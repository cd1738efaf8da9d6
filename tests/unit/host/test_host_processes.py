# SPDX-License-Identifier: Apache-2.0
"""A process is identified by its id and its start time."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.programs import PIPE, Program, start_program

from rdd.host.processes import (
    Identity,
    identity,
    is_alive,
    own_identity,
    send_signal,
    started_ps,
)


@pytest.fixture
def sleeper() -> Iterator[Program[str]]:
    with start_program(["sleep", "60"]) as process:
        yield process


def test_own_process_is_alive_and_its_identity_is_stable() -> None:
    own = own_identity()
    assert own == identity(os.getpid())
    assert is_alive(own)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_invalid_ids_have_no_identity(pid: int) -> None:
    assert identity(pid) is None


def test_reused_id_is_another_process(sleeper: Program[str]) -> None:
    process = identity(sleeper.pid)
    assert process is not None
    stale = replace(process, started=process.started + "0")
    assert not is_alive(stale)
    assert not send_signal(stale, signal.SIGKILL)
    assert sleeper.poll() is None


def test_zombie_is_not_alive(sleeper: Program[str]) -> None:
    process = identity(sleeper.pid)
    assert process is not None
    assert send_signal(process, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # ended, but not reaped
    assert identity(sleeper.pid) is None
    assert started_ps(sleeper.pid) == ""
    assert not send_signal(process, signal.SIGTERM)


def test_program_names_with_parentheses_are_read(tmp_path: object) -> None:
    code = "import sys; open('/proc/self/comm', 'w').write('a) b ('); print(1, flush=True); input()"
    with start_program([sys.executable, "-c", code], stdin=PIPE) as process:
        process.read_until()
        found = identity(process.pid)
        process.communicate("\n")
    assert found is not None
    assert found.started.rpartition(":")[2].isdigit()


def test_ps_reports_the_start_time(sleeper: Program[str]) -> None:
    assert started_ps(sleeper.pid) == started_ps(sleeper.pid) != ""
    assert started_ps(2**22 + 1) == ""


def test_identity_is_a_value() -> None:
    assert Identity(1, "a") == Identity(1, "a") != Identity(1, "b")
