# SPDX-License-Identifier: Apache-2.0
"""The daemon reacts to stop signals, whatever its parent ignores.

A shell starts background jobs with SIGINT and SIGQUIT ignored, and nohup ignores SIGHUP.
"""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.service.service_world import TIMEOUT_S, World

from rdd.host.processes import identity

INHERITED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


def ignore_all() -> None:
    for number in INHERITED:
        signal.signal(number, signal.SIG_IGN)


def ignored_by(pid: int) -> set[signal.Signals]:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.split("SigIgn:")[1].split()[0], 16)
    return {number for number in INHERITED if mask >> (number - 1) & 1}


def serve(world: World) -> "subprocess.Popen[bytes]":
    """Run the daemon in the foreground with all stop signals ignored, and wait until ready."""
    daemon = subprocess.Popen(
        [str(world.script), "service", "serve"],
        env=world.environment(),
        preexec_fn=ignore_all,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    world.until(lambda: world.pid() == daemon.pid and world.instance.config.exists())
    return daemon


@pytest.mark.skipif(sys.platform != "linux", reason="dispositions are read in /proc")
def test_daemon_started_with_ignored_signals_handles_them(world: World) -> None:
    start = subprocess.Popen(
        [str(world.script), "service", "start"], env=world.environment(), preexec_fn=ignore_all
    )
    assert start.wait(TIMEOUT_S) == 0
    pid = world.pid()
    assert ignored_by(pid) == set()
    world.rdd("service", "stop")
    assert identity(pid) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_foreground_daemon_started_with_ignored_signals_stops(
    world: World, number: signal.Signals
) -> None:
    with serve(world) as daemon:
        daemon.send_signal(number)
        assert daemon.wait(TIMEOUT_S) == 0
    assert not world.instance.config.exists()


def test_foreground_daemon_stops_on_ctrl_c_in_its_terminal(world: World) -> None:
    controller, terminal = pty.openpty()
    try:
        program = [sys.executable, "-c", _IN_TERMINAL, str(world.script), "service", "serve"]
        daemon = subprocess.Popen(
            program, env=world.environment(), stdin=terminal, stdout=terminal, stderr=terminal
        )
        world.until(lambda: world.pid() == daemon.pid and world.instance.config.exists())
        os.write(controller, b"\x03")
        assert daemon.wait(TIMEOUT_S) == 0
    finally:
        os.close(controller)
        os.close(terminal)


# Makes its standard input the controlling terminal, and becomes the program with SIGINT ignored.
_IN_TERMINAL = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
