# SPDX-License-Identifier: Apache-2.0
"""Progress of a waiting command: phases, details, boot steps, and messages in plain words."""

import io
import json
import os
import time
from pathlib import Path

import pytest

from rdd.cli.framework.progress import Progress
from rdd.cli.framework.wording import plain
from rdd.host.processes import identity
from rdd.vm.boot_steps import boot_step
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import write_pid_file


def until(happened: object) -> None:
    assert callable(happened)
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_long_wait_shows_phase_time_detail_and_step() -> None:
    terminal = io.StringIO()
    progress = Progress(terminal)
    progress.phase("virtual machine", "Lima instance is starting")
    progress.watch(lambda: "33 %, ssh")
    until(lambda: "33 %, ssh" in terminal.getvalue())
    progress.detail("almost")
    until(lambda: "almost, 33 %, ssh" in terminal.getvalue())
    progress.end()
    assert "Virtual machine is starting" in terminal.getvalue()
    assert "✓ virtual machine  " in terminal.getvalue()


def test_quick_command_shows_nothing() -> None:
    terminal = io.StringIO()
    progress = Progress(terminal, delay_s=1000)
    progress.phase("starting the control plane")
    with progress.aside():
        pass
    progress.end()
    assert terminal.getvalue() == ""
    assert [name for name, _ in progress.finished] == ["starting the control plane"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('admission webhook "a.b" denied the request: no', "no"),
        ('x: admission webhook "a" denied the request: spec.cpus is 9', "x: spec.cpus is 9"),
        ('admission webhook "a" denied the request without explanation', None),
        ("Lima instance is stopped", "Virtual machine is stopped"),
        ("anything else", None),
    ],
)
def test_messages_for_people_have_no_machinery(text: str, expected: str | None) -> None:
    assert plain(text) == (text if expected is None else expected)


def event(**status: object) -> str:
    return json.dumps({"time": "2026-01-01T00:00:00Z", "status": status})


def requirement(phase: str, number: int, of: int, description: str) -> str:
    return event(
        sshLocalPort=1,
        requirement={"phase": phase, "number": number, "of": of, "description": description},
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ""),
        ([event(sshLocalPort=1)], ""),
        ([requirement("essential", 1, 2, "ssh")], "0 %, ssh"),
        ([requirement("essential", 2, 2, "user session")], "17 %, user session"),
        ([requirement("essential", 2, 2, "a"), requirement("final", 1, 1, "boot")], "67 %, boot"),
        ([requirement("essential", 1, 2, "ssh"), "{trunc"], "0 %, ssh"),
        ([requirement("unheard of", 1, 2, "ssh")], "ssh"),
        ([requirement("essential", 1, 2, "ssh"), event(running=True)], ""),
        ([requirement("essential", 1, 2, "ssh"), event(exiting=True)], ""),
    ],
)
def test_boot_step_is_that_of_the_last_event(
    tmp_path: Path, lines: list[str], expected: str
) -> None:
    directory = InstanceDirectory(tmp_path)
    directory.ha_stdout.write_text("".join(f"{line}\n" for line in lines))
    assert boot_step(directory) == ""  # no agent runs
    me = identity(os.getpid())
    assert me is not None
    write_pid_file(directory.ha_pid, me)
    assert boot_step(directory) == expected
