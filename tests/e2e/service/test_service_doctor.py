# SPDX-License-Identifier: Apache-2.0
"""Checks of the control plane's own files: break them, run the next step, see them pass.

tests/e2e/app/test_doctor.py has the checks of a running App.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program


@pytest.fixture
def world(rdd_script: Path, tmp_path: Path, kubectl: Path) -> Iterator[World]:
    """Create a home for an instance that is not the default one."""
    for found in make_world(rdd_script, tmp_path / "h", kubectl):
        found.suffix = "a1"
        yield found


def doctor(world: World) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in world.try_rdd("doctor", "-o", "json").json()}


def reason(world: World, check: str) -> tuple[str, str]:
    found = doctor(world)[check]
    return found["healthy"], found["reason"]


def failed(world: World, check: str, expected: str) -> str:
    """Return the next step of a failed check, which `rdd status` shows, too."""
    found = doctor(world)[check]
    assert (found["healthy"], found["reason"]) == ("False", expected)
    status = world.rdd("status", "-o", "json").json()
    assert [p["nextStep"] for p in status["problems"] if p["name"] == check] == [found["nextStep"]]
    assert f"next step: {found['nextStep']}" in world.try_rdd("doctor").out
    step: str = found["nextStep"]
    return step


def paste(world: World, step: str) -> None:
    """Run a next step in a shell that selects no instance."""
    variables = {k: v for k, v in world.environment().items() if k != "RDD_INSTANCE"}
    variables["PATH"] = f"{world.script.parent}:{variables['PATH']}"
    done = run_program(["sh", "-c", step], env=variables)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words.split(), id=words)
        for words in ("service create", "service start", "start", "get", "status", "doctor")
    ],
)
def test_home_that_does_not_exist_is_not_created(world: World, words: list[str]) -> None:
    home = world.home / "mistyped"
    done = world.try_rdd(*words, HOME=str(home))
    assert done.code == 1
    assert done.last[1] == f'home directory "{home}" does not exist; create it first'
    assert not home.exists()


def test_instance_that_does_not_exist_is_named_and_not_created(world: World) -> None:
    assert reason(world, "control-plane") == ("Unknown", "NotCreated")
    assert world.rdd("status").out.startswith('Control plane  not created  instance "a1" does not')
    assert not world.instance.dir.exists()
    world.named("a11").rdd("service", "create")
    assert 'did you mean "a11"?' in doctor(world)["control-plane"]["message"]
    assert 'did you mean "a11"?' in world.rdd("status").out
    assert not world.instance.dir.exists()


def test_stopped_control_plane_is_no_failure(world: World) -> None:
    world.rdd("service", "create")
    assert reason(world, "control-plane") == ("Unknown", "NotRunning")
    assert reason(world, "database") == ("True", "NotApplicable")
    assert doctor(world)["control-plane"]["nextStep"] == "rdd --instance a1 start"
    assert world.rdd("status").out.endswith("Next step: rdd --instance a1 start\n")
    assert world.try_rdd("doctor").code == 0


def test_control_plane_that_was_killed_is_named_with_the_reason(world: World) -> None:
    world.rdd("service", "start")
    world.crash()
    step = failed(world, "control-plane", "Crashed")
    assert "was killed (by SIGKILL" in str(doctor(world)["control-plane"]["evidence"])
    paste(world, step)
    assert reason(world, "control-plane") == ("True", "Running")


def test_database_that_was_removed_under_the_control_plane(world: World) -> None:
    world.rdd("service", "start")
    assert reason(world, "database") == ("True", "InUse")
    world.instance.database.unlink()
    paste(world, failed(world, "database", "Removed"))
    assert reason(world, "database") == ("True", "InUse")
    assert reason(world, "control-plane") == ("True", "Running")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda intact: b"",
    "garbage": lambda intact: b"garbage" * 1000,
    "truncated": lambda intact: intact[: len(intact) // 2],
    "overwritten": lambda intact: intact[:4096] + b"\xff" * 8192 + intact[12288:],
}


def test_damaged_database(world: World) -> None:
    world.rdd("service", "start")
    world.rdd("service", "stop")
    database = world.instance.database
    assert reason(world, "database") == ("True", "Intact")
    intact = database.read_bytes()
    for damage in DAMAGES.values():
        database.write_bytes(damage(intact))
        step = failed(world, "database", "Damaged")
        # A start would fail.
        assert doctor(world)["control-plane"]["nextStep"] == ""
        assert "rdd --instance a1 start" not in world.rdd("status").out
        assert {path.name for path in database.parent.iterdir()} <= {"state.db", "state.db.lock"}
    assert world.try_rdd("service", "start").code == 1
    paste(world, step)
    assert reason(world, "database") == ("True", "InUse")
    assert reason(world, "control-plane") == ("True", "Running")


def test_damaged_database_with_a_backup(world: World) -> None:
    world.rdd("service", "start")
    world.write_first("kept")
    world.rdd("service", "backup")
    world.rdd("service", "stop")
    database = world.instance.database
    database.write_bytes(b"garbage" * 1000)
    (copy,) = world.instance.backup_dir.glob("*.db")
    step = failed(world, "database", "Damaged")
    assert step == f"rdd --instance a1 service restore {copy.name}"
    done = world.try_rdd("service", "start")
    assert done.code == 1
    assert copy.name in done.last[1]
    paste(world, step)
    world.rdd("service", "start")
    assert "kept" in world.kubectl("get", "configmaps", "-o", "name")


def test_database_of_a_killed_daemon_is_examined_with_its_log(world: World) -> None:
    world.rdd("service", "start")
    world.write_first()
    world.crash()
    assert reason(world, "database") == ("True", "Intact")
    database = world.instance.database
    intact = database.read_bytes()
    database.write_bytes(intact[:100] + b"\xff" * (len(intact) - 100))
    found = failed(world, "database", "Damaged")
    assert found == "rdd --instance a1 service reset"
    database.write_bytes(intact)
    assert reason(world, "database") == ("True", "Intact")


def test_saved_arguments_that_are_damaged(world: World) -> None:
    world.rdd("service", "create")
    world.instance.args_file.write_text("{")
    step = failed(world, "control-plane", "ArgumentsDamaged")
    assert world.try_rdd("service", "start").code == 1
    paste(world, step)
    world.rdd("service", "start")
    assert reason(world, "control-plane") == ("True", "Running")


def test_daemon_that_never_finishes_its_start(world: World) -> None:
    world.rdd("svc", "start", "--wait=false", RDD_TEST_PAUSE="listen")
    world.until(lambda: 'msg="paused at listen"' in world.log())
    assert reason(world, "control-plane") == ("Unknown", "Starting")
    path = world.instance.record_file
    text = path.read_text()
    started = text.split('"startTime": "')[1][:4]
    path.write_text(text.replace(f'"startTime": "{started}', '"startTime": "2001'))
    paste(world, failed(world, "control-plane", "StartHangs"))
    assert reason(world, "control-plane") == ("True", "Running")


def test_full_disk(world: World, mounted: Callable[..., Path]) -> None:
    mounted(world.home, options="size=2g")
    paste(world, failed(world, "disk", "DiskLow"))
    run_program(["mount", "-o", "remount,size=20m", str(world.home)], check=True)
    paste(world, failed(world, "disk", "DiskFull"))
    run_program(["mount", "-o", "remount,size=20g", str(world.home)], check=True)
    assert reason(world, "disk") == ("True", "Enough")

    # The data of the engine is on a file system of its own.
    machine = world.instance.lima_home / "rd"
    mounted(machine, options="size=2g")
    failed(world, "disk", "DiskLow")
    assert doctor(world)["disk"]["evidence"] == [f"{machine}: 2.0 GiB free"]


def pressure(world: World) -> str:
    """Return reason and message of the condition of the App; empty without it."""
    found = json.loads(world.kubectl("get", "app", "app", "-o", "json"))
    conditions = found.get("status", {}).get("conditions", [])
    texts = [f"{c['reason']}: {c['message']}" for c in conditions if c["type"] == "DiskPressure"]
    return "".join(texts)


def test_disk_pressure_is_a_condition_of_the_app(
    world: World, mounted: Callable[..., Path]
) -> None:
    mounted(world.home, options="size=20g")
    world.rdd("set", "running=false")
    assert pressure(world) == ""
    # The check runs when the App changes, and every two seconds while it fails.
    for size, expected in (("2g", "DiskLow"), ("900m", "DiskFull"), ("20g", "")):
        run_program(["mount", "-o", f"remount,size={size}", str(world.home)], check=True)
        if expected == "DiskLow":
            world.rdd("set", "containerEngine.name=containerd")
        wanted = f"{expected}: The disk is" if expected else ""
        world.until(lambda wanted=wanted: pressure(world)[: len(wanted) or None] == wanted)
        assert ("Free some space: " in pressure(world)) == bool(expected)


@pytest.mark.parametrize("words", ["ctl get ns", "ctl wait-condition a/b C", "get", "snapshot ls"])
def test_command_without_the_kubeconfig_names_the_fix(world: World, words: str) -> None:
    world.rdd("service", "start")
    world.instance.config.unlink()
    done = world.try_rdd(*words.split())
    fix = "rdd --instance a1 service stop && rdd --instance a1 service start"
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"`{fix}` writes it again" in done.last[1]
    paste(world, fix)
    assert "default" in world.rdd("ctl", "get", "ns").out
