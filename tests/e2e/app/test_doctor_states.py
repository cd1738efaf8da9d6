# SPDX-License-Identifier: Apache-2.0
"""Checks in every state of the control plane: up, hung, killed, down, and with damaged files.

Whatever the state is, `rdd doctor` and `rdd status` agree, a broken thing is a failed check with a
next step that names the instance, and a mended one passes again.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.e2e.app.doctor_world import Desktop, open_desktop
from tests.e2e.machine.host_world import eventually

from rdd.host.processes import identity

pytestmark = pytest.mark.timeout(300)

RDD = "rdd --instance a1 service"


@pytest.fixture(scope="module")
def desktop(rdd_script: Path, kubectl: Path, real_part: Callable[[str], Path]) -> Iterator[Desktop]:
    yield from open_desktop(rdd_script, kubectl, real_part)


@contextmanager
def up(desktop: Desktop) -> Iterator[set[str]]:
    yield set()


@contextmanager
def hung(desktop: Desktop) -> Iterator[set[str]]:
    pid = desktop.world.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield {"control-plane"}
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def killed(desktop: Desktop) -> Iterator[set[str]]:
    desktop.world.crash()
    try:
        yield {"control-plane"}
    finally:
        desktop.world.rdd("service", "start")


@contextmanager
def without_kubeconfig(desktop: Desktop) -> Iterator[set[str]]:
    config = desktop.world.instance.config
    kept = config.with_name("kept.yaml")
    config.rename(kept)
    try:
        yield {"certificates"}
    finally:
        kept.rename(config)


@contextmanager
def damaged_database(desktop: Desktop) -> Iterator[set[str]]:
    desktop.world.crash()
    directory = desktop.world.instance.database.parent
    kept = directory.with_name("kept")
    directory.rename(kept)
    directory.mkdir()
    desktop.world.instance.database.write_bytes(b"no database" * 1000)
    try:
        yield {"control-plane", "database"}
    finally:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        kept.rename(directory)
        desktop.world.rdd("service", "start")


STATES = [up, hung, killed, without_kubeconfig, damaged_database]


def agreeing(desktop: Desktop, is_expected: Callable[[set[str]], bool]) -> dict[str, str]:
    """Wait until doctor and status agree in expected failures; return their next steps."""
    found: dict[str, str] = {}

    def is_same() -> bool:
        nonlocal found
        entries = desktop.doctor().values()
        found = {e["name"]: e["nextStep"] for e in entries if e["healthy"] == "False"}
        return is_expected(set(found)) and desktop.problems() == found

    try:
        eventually(is_same, "doctor and status to agree")
    except AssertionError as error:
        raise AssertionError(f"{error}; doctor: {found}; status: {desktop.problems()}") from None
    return found


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_checks_follow_reality_in_every_state(
    desktop: Desktop, state: Callable[[Desktop], AbstractContextManager[set[str]]]
) -> None:
    (engine,) = desktop.pids("dockerd")
    config = desktop.world.home / ".docker" / "config.json"
    text = config.read_text()
    with state(desktop) as expected:
        steps = agreeing(desktop, lambda failed: failed == expected)
        if "database" in expected:
            # The newest backup, if there is one yet.
            (step,) = set(steps.values())
            assert step.startswith(f"{RDD} restore ") or step == f"{RDD} reset"

        config.write_text("{ not json")
        try:
            steps = agreeing(desktop, lambda failed: failed == expected | {"docker-context"})
            assert str(config) in steps["docker-context"]
        finally:
            config.write_text(text)

        os.kill(engine, signal.SIGSTOP)
        try:
            steps = agreeing(desktop, lambda failed: "engine" in failed)
            assert "docker-context" not in steps
            assert steps["engine"].startswith("rdd --instance a1 ")
        finally:
            os.kill(engine, signal.SIGCONT)
    agreeing(desktop, lambda failed: not failed)
    assert desktop.pids("dockerd") == [engine]  # nothing was restarted


def test_stopped_control_plane_keeps_its_checks(desktop: Desktop) -> None:
    pid = desktop.world.pid()
    desktop.world.rdd("service", "stop")
    assert identity(pid) is None
    agreeing(desktop, lambda failed: not failed)
    config = desktop.world.home / ".docker" / "config.json"
    text = config.read_text()
    config.write_text("{ not json")
    found = desktop.doctor()["docker-context"]
    assert (found["healthy"], bool(found["nextStep"])) in (("True", False), ("False", True))
    config.write_text(text)
    # Until the engine runs, no check fails; the next test needs it with its context.
    desktop.world.rdd("start")
    agreeing(desktop, lambda failed: not failed)
