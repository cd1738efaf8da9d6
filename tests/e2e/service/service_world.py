# SPDX-License-Identifier: Apache-2.0
"""A home directory and the real `rdd`, for tests of the service commands."""

import json
import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.programs import PIPE, Program, run_program, start_program

from rdd.daemon.service import record
from rdd.daemon.service.waits import Deadline, wait_ended
from rdd.host.locks import FileLock
from rdd.host.processes import identity, send_signal
from rdd.instance import Instance

TIMEOUT_S = 120
CURRENT_CONTEXT = ("context", "inspect", "--format", "{{.Name}}")
"""Arguments with which docker prints its current context; 20.10 has no `context show`."""
_MESSAGE = re.compile(r'level=(\w+) msg="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """Return the messages of its log lines."""
        return [text.replace('\\"', '"') for _, text in _MESSAGE.findall(self.err)]

    @property
    def last(self) -> tuple[str, str]:
        """Return level and message of its last log line."""
        level, text = _MESSAGE.findall(self.err)[-1]
        return level, text.replace('\\"', '"')

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class World:
    """One home directory; every command in it has a timeout."""

    script: Path
    home: Path
    kubectl_path: Path
    suffix: str = "2"
    variables: dict[str, str] = field(default_factory=dict)
    programs: ExitStack = field(default_factory=ExitStack)

    @property
    def instance(self) -> Instance:
        return Instance(self.suffix, self.home)

    @property
    def title(self) -> str:
        return f'"{self.instance.name}" control plane'

    def environment(self, **extra: str) -> dict[str, str]:
        base = {"HOME": str(self.home), "PATH": os.environ["PATH"], "RDD_LOG_LEVEL": "info"}
        return {**base, "RDD_INSTANCE": self.suffix, **self.variables, **extra}

    def rdd(self, *words: str, **extra: str) -> Done:
        """Run a command to its end; it must succeed."""
        found = self.try_rdd(*words, **extra)
        assert found.code == 0, f"rdd {' '.join(words)}: {found}\n{self.log()}"
        return found

    def try_rdd(self, *words: str, **extra: str) -> Done:
        """Run a command to its end; it may fail."""
        return self.end(self.begin(*words, **extra))

    def on_terminal(self, *words: str, typed: str = "", **extra: str) -> Done:
        """Run a command on a terminal of its own, with what a user types there.

        Its stdout and stderr are both in `out`.
        """
        command = shlex.join([str(self.script), *words])
        done = run_program(
            ["script", "--quiet", "--return", "--command", command, "/dev/null"],
            env=self.environment(**{"RDD_LOG_LEVEL": "warn", **extra}),
            input=typed,
        )
        return Done(done.returncode, done.stdout.replace("\r\n", "\n"), "")

    def begin(self, *words: str, **extra: str) -> Program[str]:
        """Start a command without waiting."""
        return self.begin_program(self.script, *words, **extra)

    def begin_program(self, *command: str | Path, **extra: str) -> Program[str]:
        """Start any program in this home; it ends at the latest with the test."""
        environment = self.environment(**extra)
        program = start_program(command, env=environment, stderr=PIPE)
        return self.programs.enter_context(program)

    def end(self, process: Program[str]) -> Done:
        out, err = process.communicate()
        return Done(process.returncode, out, err)

    def log(self) -> str:
        try:
            return (self.instance.log_dir / "rdd.stderr.log").read_text()
        except OSError:
            return ""

    def pid(self) -> int:
        """Return the process id of the running daemon, or 0."""
        found = record.read(self.instance)
        return found.process.pid if found else 0

    def is_locked(self) -> bool:
        """Return whether the instance is locked."""
        lock = FileLock.try_acquire(self.instance.lock_file)
        if lock is None:
            return True
        lock.release()
        return False

    def crash(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the daemon and wait until it has ended."""
        pid = self.pid()
        assert pid
        os.kill(pid, number)
        # Its ports are free when its last thread has ended, not when the first one has.
        self.until(lambda: identity(pid) is None and _threads(pid) <= 1)

    def until(self, happened: Any, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + timeout_s
        while not happened():
            assert time.monotonic() < end, f"timeout\n{self.log()}"
            time.sleep(0.005)

    def write_first(self, name: str = "first") -> None:
        """Write with a real client, directly after a start."""
        self.kubectl("create", "configmap", name, "--from-literal=a=b")

    def kubectl(self, *words: str) -> str:
        done = run_program(
            [self.kubectl_path, "--kubeconfig", str(self.instance.config), *words],
            env=self.environment(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def named(self, suffix: str) -> "World":
        """Return another instance in the same home."""
        return replace(self, suffix=suffix)

    def close(self) -> None:
        """End all programs and daemons of this home."""
        self.programs.close()
        for base in self.home.glob(".local/share/rancher-desktop-*"):
            instance = Instance(base.name.removeprefix("rancher-desktop-"), self.home)
            found = record.read(instance)
            if found is not None:
                send_signal(found.process, signal.SIGKILL)
                wait_ended(found, deadline=Deadline(30), what="the daemon of a test")


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def own_suffix() -> str:
    """Return an instance whose ports no daemon of another test takes, for use within one worker.

    Daemons of all other tests share the ports of one instance: whichever starts first has them. A
    test of a port that is kept across a restart would find another daemon there.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    return str(60 + int(worker.removeprefix("gw")))


def world(script: Path, home: Path, kubectl: Path, *, suffix: str = "2") -> Iterator[World]:
    """The body of the fixture `world`."""
    home.mkdir(exist_ok=True)
    found = World(script, home, kubectl, suffix)
    try:
        yield found
    finally:
        found.close()
