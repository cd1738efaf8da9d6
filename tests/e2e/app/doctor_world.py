# SPDX-License-Identifier: Apache-2.0
"""A running App whose checks are broken and mended; its instance is not the default one.

The App runs a real engine on this machine; only k3s is a stand-in (tests/k3s.py).
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.host_world import eventually, image
from tests.e2e.machine.limavm_parts import processes
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

from rdd.client.kubeconfig import KubeconfigError, load
from rdd.controllers.app.diagnostics import checks
from rdd.vm.drivers.kubernetes_files import program_of

ROOT = Path(__file__).parents[3]
RELEASE = "v1.33.7+k3s3"


@dataclass
class Desktop:
    """A running App of an instance that is not the default one."""

    world: World
    docker_path: Path

    def docker(self, *words: str, data: bytes | None = None) -> str:
        name = self.world.instance.name
        done = run_program(
            [str(self.docker_path), "--context", name, *words],
            env=self.world.environment(),
            input=data,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def doctor(self) -> dict[str, dict[str, Any]]:
        done = self.world.try_rdd("doctor", "-o", "json")
        found = {entry["name"]: entry for entry in done.json()}
        is_failed = any(entry["healthy"] == "False" for entry in found.values())
        assert done.code == (1 if is_failed else 0)
        return found

    def reason(self, check: str) -> tuple[str, str]:
        found = self.doctor()[check]
        return found["healthy"], found["reason"]

    def problems(self) -> dict[str, str]:
        """Return the next steps of the problems in `rdd status`, by check."""
        found = self.world.try_rdd("status", "-o", "json").json()  # 1 if the daemon hangs
        return {problem["name"]: problem["nextStep"] for problem in found["problems"]}

    def failed(self, check: str, reason: str) -> str:
        """Wait for a failed check in doctor, status and its Diagnostic; return its next step."""
        eventually(lambda: self.reason(check) == ("False", reason), f"{check} {reason}")
        step: str = self.doctor()[check]["nextStep"]
        assert step
        eventually(lambda: self.problems().get(check) == step, f"{check} in status: {step}")
        self.agree(check)
        return step

    def passed(self, check: str) -> None:
        eventually(lambda: self.doctor()[check]["healthy"] == "True", f"{check} to pass")
        eventually(lambda: check not in self.problems(), f"{check} to pass in status")
        self.agree(check)

    def agree(self, check: str) -> None:
        """Wait until the Diagnostic, if the daemon can serve it, has the finding of doctor."""
        if check not in checks.CHECKS or not self.is_served():
            return

        def is_same() -> bool:
            found = json.loads(self.world.kubectl("get", "diagnostic", check, "-o", "json"))
            (condition,) = found["status"]["conditions"]
            mine = self.doctor()[check]
            return bool(
                condition["reason"] == mine["reason"]
                and found["status"].get("nextStep", "") == mine["nextStep"]
            )

        eventually(is_same, f"the Diagnostic {check} to agree")

    def is_served(self) -> bool:
        try:
            load(self.world.instance.config)
        except KubeconfigError:
            return False
        return bool(self.world.pid())

    def paste(self, step: str) -> str:
        """Run a next step in a shell, with the environment of another terminal."""
        environment = {
            name: value
            for name, value in self.world.environment().items()
            if name != "RDD_INSTANCE"
        }
        docker = self.docker_path.parent
        environment["PATH"] = f"{self.world.script.parent}:{docker}:{environment['PATH']}"
        done = run_program(["sh", "-c", step], env=environment)
        assert done.returncode == 0, f"{step}: {done.stderr}"
        return done.stdout

    def pids(self, program: str) -> list[int]:
        mark = str(self.world.home).encode()
        return [
            pid
            for pid, words in processes()
            if Path(os.fsdecode(words[0])).name == program and any(mark in word for word in words)
        ]


def open_desktop(
    rdd_script: Path, kubectl: Path, real_part: Callable[[str], Path]
) -> Iterator[Desktop]:
    """Yield a desktop with a running App and an image."""
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables", "ip"):
        real_part(name)
    home = Path(tempfile.mkdtemp(prefix="rddd", dir="/tmp"))
    for world in make_world(rdd_script, home / "h", kubectl):
        world.suffix = "a1"
        world.variables["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        _install_k3s(world)
        try:
            world.rdd("set", "running=true", "kubernetes.enabled=true", "kubernetes.version=1.33.7")
            found = Desktop(world, real_part("docker"))
            found.docker("import", "-", "tools", data=image())
            yield found
        finally:
            for pid in found.pids("dockerd"):
                os.kill(pid, signal.SIGCONT)
            world.try_rdd("svc", "delete", "--timeout=120s")
    shutil.rmtree(home, ignore_errors=True)


def _install_k3s(world: World) -> None:
    path = program_of(RELEASE, world.environment())
    path.parent.mkdir(parents=True, exist_ok=True)
    python = f"env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable}"
    path.write_text(f'#!/bin/sh\nexec {python} -m tests.k3s "$@"\n')
    path.chmod(0o755)
