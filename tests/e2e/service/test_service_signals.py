# SPDX-License-Identifier: Apache-2.0
"""The daemon reacts to stop signals, whatever its parent ignores.

A shell starts background jobs with SIGINT and SIGQUIT ignored, and nohup ignores SIGHUP.
"""

import os
import pty
import signal
import sys
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.programs import Program, start_program, with_signals_ignored

from rdd.host.processes import identity

INHERITED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


def ignored_by(pid: int) -> set[signal.Signals]:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.split("SigIgn:")[1].split()[0], 16)
    return {number for number in INHERITED if mask >> (number - 1) & 1}


def serve(world: World) -> Program[str]:
    """Run the daemon in the foreground with all stop signals ignored, and wait until ready."""
    command = with_signals_ignored([world.script, "service", "serve"])
    daemon = world.begin_program(*command)
    world.until(lambda: world.pid() == daemon.pid and world.instance.config.exists())
    return daemon


@pytest.mark.skipif(sys.platform != "linux", reason="dispositions are read in /proc")
def test_daemon_started_with_ignored_signals_handles_them(world: World) -> None:
    command = with_signals_ignored([world.script, "service", "start"])
    assert world.end(world.begin_program(*command)).code == 0
    pid = world.pid()
    assert ignored_by(pid) == set()
    world.rdd("service", "stop")
    assert identity(pid) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_foreground_daemon_started_with_ignored_signals_stops(
    world: World, number: signal.Signals
) -> None:
    daemon = serve(world)
    daemon.send_signal(number)
    assert world.end(daemon).code == 0
    assert not world.instance.config.exists()


def test_foreground_daemon_stops_on_ctrl_c_in_its_terminal(world: World) -> None:
    controller, terminal = pty.openpty()
    try:
        program = [sys.executable, "-c", _IN_TERMINAL, str(world.script), "service", "serve"]
        with start_program(
            program,
            env=world.environment(),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        ) as daemon:
            world.until(lambda: world.pid() == daemon.pid and world.instance.config.exists())
            os.write(controller, b"\x03")
            assert daemon.wait() == 0
    finally:
        os.close(controller)
        os.close(terminal)


# Makes its standard input the controlling terminal and becomes the program with SIGINT ignored.
_IN_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
