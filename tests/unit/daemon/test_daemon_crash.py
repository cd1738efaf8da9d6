# SPDX-License-Identifier: Apache-2.0
"""The end of a daemon that could not report it is found out from what it left behind."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import start_program

from rdd.daemon.service import crash, record
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.processes import Identity, identity
from rdd.instance import Instance

FATAL = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
    '  File "a.py", line 1 in b\n'
)


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    found = Instance("2", tmp_path)
    found.dir.mkdir(parents=True)
    found.log_dir.mkdir(parents=True)
    return found


@pytest.fixture
def ended() -> Identity:
    """A process of this boot that has ended."""
    with start_program(["sleep", "600"]) as program:
        found = identity(program.pid)
        program.kill()
        program.wait()
    assert found is not None
    return found


def crashed(instance: Instance, process: Identity, log: str = "", **changes: object) -> str:
    """Leave the record and the log of a daemon; return the reason that is found."""
    daemon = DaemonRecord(process, version="v1", state=State.READY, start_time="now")
    record.write(instance, replace(daemon, **changes))  # type: ignore[arg-type]
    (instance.log_dir / "rdd.stderr.log").write_text(log)
    return crash.last(instance)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        pytest.param("", "was killed (by SIGKILL or", id="killed"),
        pytest.param('level=info msg="ready"\n', "was killed (by SIGKILL or", id="in the middle"),
        pytest.param(FATAL, "had a fatal error (Segmentation fault); the stacks", id="fatal"),
        pytest.param(
            'level=error msg="out of memory (accept): exiting"\n',
            "exited: out of memory (accept): exiting",
            id="out of memory",
        ),
        pytest.param(
            '{"level":"error","msg":"out of memory (accept): exiting","time":"x"}\n',
            "exited: out of memory (accept): exiting",
            id="log in JSON",
        ),
        pytest.param(
            'level=error msg="the stage: exiting"\nlevel=info msg="later"\n',
            "was killed (by SIGKILL or",
            id="not the last line",
        ),
    ],
)
def test_reason_is_what_the_daemon_left(
    instance: Instance, ended: Identity, log: str, reason: str
) -> None:
    found = crashed(instance, ended, log)
    assert reason in found
    assert f"process {ended.pid}, started now, " in found


@pytest.mark.parametrize(
    ("before", "text"),
    [
        pytest.param(0, "has killed 1 process for that", id="one"),
        pytest.param(-1, "by SIGKILL or", id="unknown"),
        pytest.param(1, "by SIGKILL or", id="none since"),
    ],
)
def test_processes_killed_for_want_of_memory_are_counted(
    instance: Instance,
    ended: Identity,
    before: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = tmp_path / "vmstat"
    counts.write_text("nr_free_pages 4\noom_kill 1\nzone_reclaim 0\n")
    monkeypatch.setattr(crash, "_VMSTAT", counts)
    assert text in crashed(instance, ended, oom_kills=before)


def test_note_outlives_the_record_until_an_orderly_end(instance: Instance, ended: Identity) -> None:
    text = crashed(instance, ended)
    crash.clear(instance)
    assert not instance.record_file.exists()
    assert crash.last(instance) == text
    crash.clear(instance)  # there is no record to judge
    assert crash.last(instance) == text
    crash.forget(instance)
    assert crash.last(instance) == ""


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("no record", id="orderly end"),
        pytest.param("boot", id="the machine was switched off"),
        pytest.param("second signal", id="ended at once by a user"),
    ],
)
def test_other_ends_are_no_crash(instance: Instance, ended: Identity, end: str) -> None:
    log = 'level=warning msg="second signal (SIGTERM): exiting immediately"\n'
    process = Identity(ended.pid, "another-boot:5") if end == "boot" else ended
    crashed(instance, process, log if end == "second signal" else "")
    if end == "no record":
        record.clear(instance)
    assert crash.last(instance) == ""


def test_log_of_an_earlier_run_is_not_that_of_a_daemon_in_the_foreground(
    instance: Instance, ended: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash, "started_at", lambda process: 4e9)
    assert "was killed" in crashed(instance, ended, FATAL, supervised=True)
    assert "fatal error" in crashed(instance, ended, FATAL, supervised=False)


def test_count_of_this_machine_is_read() -> None:
    assert crash.oom_kills() >= -1
