# SPDX-License-Identifier: Apache-2.0
"""A process is its id and its start; a number alone is nobody."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rdd.host.processes import (
    Identity,
    identity,
    is_alive,
    own_identity,
    send_signal,
    started_ps,
)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_own_process_is_alive_and_stays_the_same() -> None:
    own = own_identity()
    assert own == identity(os.getpid())
    assert is_alive(own)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_impossible_ids_belong_to_nobody(pid: int) -> None:
    assert identity(pid) is None


def test_a_recycled_id_is_another_process(sleeper: "subprocess.Popen[bytes]") -> None:
    process = identity(sleeper.pid)
    assert process is not None
    stale = replace(process, started=process.started + "0")
    assert not is_alive(stale)
    assert not send_signal(stale, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_zombie_is_dead(sleeper: "subprocess.Popen[bytes]") -> None:
    process = identity(sleeper.pid)
    assert process is not None
    assert send_signal(process, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # ended, but not yet asked for
    assert identity(sleeper.pid) is None
    assert started_ps(sleeper.pid) == ""
    assert not send_signal(process, signal.SIGTERM)


def test_program_names_with_parentheses_are_read(tmp_path: object) -> None:
    code = "import sys; open('/proc/self/comm', 'w').write('a) b ('); print(1, flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    found = identity(process.pid)
    process.communicate(b"\n")
    assert found is not None
    assert found.started.rpartition(":")[2].isdigit()


def test_ps_tells_when_a_process_started(sleeper: "subprocess.Popen[bytes]") -> None:
    assert started_ps(sleeper.pid) == started_ps(sleeper.pid) != ""
    assert started_ps(2**22 + 1) == ""


def test_an_identity_is_a_value() -> None:
    assert Identity(1, "a") == Identity(1, "a") != Identity(1, "b")
