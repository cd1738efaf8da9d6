# SPDX-License-Identifier: Apache-2.0
"""A home directory of its own and the real `rdd` in it, for tests of the service commands."""

import json
import os
import re
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
_MESSAGE = re.compile(r'level=(\w+) msg="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """The texts of its log lines."""
        return [text.replace('\\"', '"') for _, text in _MESSAGE.findall(self.err)]

    @property
    def last(self) -> tuple[str, str]:
        """Level and text of its last log line."""
        level, text = _MESSAGE.findall(self.err)[-1]
        return level, text.replace('\\"', '"')

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class World:
    """One home; every command in it is bounded in time."""

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
        """Run a command to its end, however it ends."""
        return self.end(self.begin(*words, **extra))

    def begin(self, *words: str, **extra: str) -> Program[str]:
        """Start a command and go on."""
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
        """The process id of the daemon that runs; 0 if none does."""
        found = record.read(self.instance)
        return found.process.pid if found else 0

    def is_locked(self) -> bool:
        """Whether somebody holds the lock of the instance."""
        lock = FileLock.try_acquire(self.instance.lock_file)
        if lock is None:
            return True
        lock.release()
        return False

    def crash(self) -> None:
        """End the daemon as a power failure would, and wait until it is gone."""
        pid = self.pid()
        assert pid
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: identity(pid) is None)

    def until(self, happened: Any, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for something that is about to happen."""
        end = time.monotonic() + timeout_s
        while not happened():
            assert time.monotonic() < end, f"did not happen in time\n{self.log()}"
            time.sleep(0.005)

    def write_first(self, name: str = "first") -> None:
        """A write by a real client, directly after a start."""
        self.kubectl("create", "configmap", name, "--from-literal=a=b")

    def kubectl(self, *words: str) -> str:
        done = run_program(
            [self.kubectl_path, "--kubeconfig", str(self.instance.config), *words],
            env=self.environment(),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def named(self, suffix: str) -> "World":
        """Another instance in the same home."""
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


def world(script: Path, home: Path, kubectl: Path) -> Iterator[World]:
    """The body of the fixture `world`."""
    home.mkdir(exist_ok=True)
    found = World(script, home, kubectl)
    try:
        yield found
    finally:
        found.close()
