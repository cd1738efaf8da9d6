# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment of a command: exit code 130 (or death by SIGINT), no traceback.

Moments are counted in function calls of the command itself, not in seconds: a profile function
sends SIGINT at the n-th call. So each moment is the same on every machine and under any load.
"""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import Done, World
from tests.e2e.service.service_world import world as make_world

_AT = """
import os, signal, sys
import rdd.__main__ as program
left = int(sys.argv[1])
sys.argv[:] = sys.argv[2:]
def count(frame, event, argument):
    global left
    left -= 1
    if left == 0:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
if left:
    sys.setprofile(count)
sys.exit(program.main())
"""
_MOMENTS = (1, 300, 1000, 3000, 6000, 10000, 15000, 20000, 25000, 30000, 40000, 50000, 60000)


@pytest.fixture(scope="module")
def running(
    rdd_script: Path, tmp_path_factory: pytest.TempPathFactory, kubectl: Path
) -> Iterator[World]:
    for world in make_world(rdd_script, tmp_path_factory.mktemp("interrupts") / "h", kubectl):
        world.rdd("service", "create", "--controllers=rdd")
        world.rdd("service", "start")
        yield world


def interrupted_at(world: World, moment: int, *words: str, **extra: str) -> Done:
    """Run a command that receives SIGINT at its n-th function call."""
    command = [sys.executable, "-c", _AT, str(moment), str(world.script), *words]
    return world.end(world.begin_program(*command, **extra))


def assert_silent(done: Done) -> None:
    assert "Traceback" not in done.err, done
    assert "Exception ignored" not in done.err, done
    assert "KeyboardInterrupt" not in done.err, done


@pytest.mark.parametrize(
    "words",
    [
        ("version",),
        ("service", "status"),
        ("status",),
        ("doctor",),
        ("ctl", "get", "namespaces", "-o", "yaml"),
        ("ctl", "wait", "--for=create", "configmap/never", "--timeout=1s"),
        ("set", "--help"),
    ],
    ids=" ".join,
)
def test_interrupt_at_any_moment_prints_no_traceback(
    running: World, words: tuple[str, ...]
) -> None:
    ended_before = 0
    for moment in _MOMENTS:
        done = interrupted_at(running, moment, *words, RDD_KUBECTL="builtin")
        assert_silent(done)
        if done.code not in (130, -signal.SIGINT):
            ended_before += 1
    assert ended_before < len(_MOMENTS)  # the first moments are in every command


@pytest.mark.parametrize(
    "words",
    [("ctl", "get", "configmaps", "--watch"), ("service", "log", "--follow")],
    ids=" ".join,
)
def test_interrupt_ends_a_command_that_follows(running: World, words: tuple[str, ...]) -> None:
    running.kubectl("create", "configmap", f"followed-{words[0]}", "--from-literal=a=b")
    program = running.begin(*words, RDD_KUBECTL="builtin")
    program.read_until()
    program.send_signal(signal.SIGINT)
    done = running.end(program)
    assert_silent(done)
    assert done.code == 130
