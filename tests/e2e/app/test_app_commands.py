# SPDX-License-Identifier: Apache-2.0
"""Commands for the App against a control plane without controllers: the App never settles.

The tests check what the commands write, how they wait and how they exit. Other files test an App
that settles, with a real container engine.
"""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

from rdd.kinds.app import App
from rdd.kinds.crd import definition_of


@pytest.fixture(scope="module")
def served(
    rdd_script: Path, tmp_path_factory: pytest.TempPathFactory, kubectl: Path
) -> Iterator[World]:
    """Run a control plane that has the App's definition and no controller for it."""
    for world in make_world(rdd_script, tmp_path_factory.mktemp("apps") / "h", kubectl):
        world.rdd("svc", "create", "--controllers=")
        world.rdd("svc", "start")
        path = world.home / "crd.json"
        path.write_text(json.dumps(definition_of(App)))
        world.kubectl("apply", "-f", str(path))
        world.kubectl(
            "wait", "--for=condition=Established", "crd/apps.app.rancherdesktop.io", "--timeout=60s"
        )
        yield world


@pytest.fixture
def world(served: World) -> Iterator[World]:
    yield served
    served.kubectl("delete", "apps", "--all")


def app(world: World) -> dict[str, object]:
    found: dict[str, object] = json.loads(world.kubectl("get", "app", "app", "-o", "json"))
    return found


def write_status(world: World, generation: int, **settled: str) -> None:
    condition = {
        "type": "Settled",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **settled,
    }
    world.kubectl(
        *("patch", "app", "app", "--subresource=status", "--type=merge", "-p"),
        json.dumps({"status": {"conditions": [condition]}}),
    )


def test_malformed_arguments_are_rejected_before_the_daemon_starts(
    rdd_script: Path, tmp_path: Path, kubectl: Path
) -> None:
    for fresh in make_world(rdd_script, tmp_path / "h", kubectl):
        done = fresh.try_rdd("set", "running")
        assert done.code == 1
        assert "expected PROPERTY=VALUE format" in done.last[1]
        assert not fresh.instance.dir.exists()


def test_help_lists_the_properties_without_starting_a_daemon(
    rdd_script: Path, tmp_path: Path, kubectl: Path
) -> None:
    for fresh in make_world(rdd_script, tmp_path / "h", kubectl):
        done = fresh.rdd("set", "--help")
        assert "containerEngine.name" in done.out
        assert not fresh.instance.dir.exists()


def test_help_lists_the_properties_of_the_running_control_plane(world: World) -> None:
    assert "virtualMachine.memory" in world.rdd("set", "--help").out


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("nope=1", 'unknown property "nope"'),
        ("containerEngine.name=docker", "valid values: moby, containerd"),
        ("namespace=x", 'unknown property "namespace"'),
    ],
)
def test_unknown_names_and_values_are_rejected_before_a_write(
    world: World, word: str, problem: str
) -> None:
    done = world.try_rdd("set", "running=true", word)
    assert done.code == 1
    assert problem in done.last[1]
    assert world.kubectl("get", "apps", "-o", "name") == ""


def test_the_first_set_creates_the_app_and_the_next_updates_it(world: World) -> None:
    done = world.rdd("set", "--wait=false", "containerEngine.name=containerd", "-o", "json")
    assert done.messages == ["App created"]
    spec = done.json()["spec"]
    assert (spec["running"], spec["containerEngine"]["name"]) == (False, "containerd")
    done = world.rdd("set", "--wait=false", "kubernetes.enabled=true")
    assert done.messages == ["App updated"]
    assert app(world)["spec"]["kubernetes"] == {"enabled": True}  # type: ignore[index]


def test_an_update_that_the_server_rejects_exits_with_3(world: World) -> None:
    world.rdd("set", "--wait=false", "virtualMachine.memory=2Gi")
    done = world.try_rdd("set", "virtualMachine.memory=lots")
    assert (done.code, done.last[0]) == (3, "error")
    assert "virtualMachine.memory" in done.last[1]


def test_an_app_that_does_not_settle_exits_with_4_after_the_timeout(world: World) -> None:
    done = world.try_rdd("start", "--timeout=1s")
    assert (done.code, done.last[0]) == (4, "error")
    assert "context deadline exceeded" in done.last[1]


def test_only_the_generation_of_the_write_counts(world: World) -> None:
    world.rdd("set", "--wait=false", "running=false")
    write_status(world, 1, status="True", reason="Settled", message="of long ago")
    waiting = world.begin("start", "--timings")
    waiting.read_until(lambda line: "Waiting for App to settle" in line, stream=waiting.stderr)
    assert waiting.poll() is None
    write_status(world, 2, status="False", reason="Working", message="on it")
    write_status(world, 2, status="True", reason="Settled", message="done")
    done = world.end(waiting)
    assert done.code == 0
    assert "of long ago" not in done.err
    assert "Settled=True: done (Settled)" in done.messages
    assert "total" in done.err


def test_a_dry_run_without_an_app_creates_a_stopped_one_and_warns(world: World) -> None:
    done = world.rdd("set", "--dry-run", "running=true", "-o", "json", RDD_LOG_LEVEL="warn")
    assert done.messages == [
        "App created with defaults, not running: there was none to validate against"
    ]
    assert done.json()["spec"]["running"] is True
    assert app(world)["spec"]["running"] is False  # type: ignore[index]


def test_a_dry_run_changes_nothing_of_an_app(world: World) -> None:
    world.rdd("set", "--wait=false", "running=false")
    done = world.rdd("set", "--dry-run", "running=true")
    assert done.messages == ["App validated (dry run)"]
    assert app(world)["spec"]["running"] is False  # type: ignore[index]


def test_stop_delete_and_restart_create_no_app(world: World) -> None:
    assert world.rdd("stop").messages == ["App does not exist; nothing to stop"]
    assert world.rdd("delete").messages == ["App does not exist; nothing to delete"]
    done = world.try_rdd("restart")
    assert (done.code, done.last[1]) == (1, "App does not exist; `rdd start` creates it")
    assert world.kubectl("get", "apps", "-o", "name") == ""


def test_delete_waits_until_the_app_is_gone(world: World) -> None:
    world.rdd("set", "--wait=false", "running=false")
    hold = '{"metadata":{"finalizers":["example.com/hold"]}}'
    world.kubectl("patch", "app", "app", "--type=merge", "-p", hold)
    done = world.try_rdd("delete", "--timeout=1s")
    assert (done.code, done.last[0]) == (4, "error")
    deleting = world.begin("delete", "-o", "json")
    deleting.read_until(lambda line: "App is being deleted" in line, stream=deleting.stderr)
    world.kubectl("patch", "app", "app", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    ended = world.end(deleting)
    assert (ended.code, ended.json()) == (0, {"deleted": True})


def test_a_deleted_app_ends_the_wait(world: World) -> None:
    waiting = world.begin("start")
    world.until(lambda: world.kubectl("get", "apps", "-o", "name") != "")
    world.kubectl("delete", "app", "app")
    done = world.end(waiting)
    assert (done.code, done.last[1]) == (
        1,
        "the App was deleted while waiting for it to settle",
    )


def test_run_without_a_command_is_an_error_and_its_help_is_not(world: World) -> None:
    for words in ([], ["--"]):
        done = world.try_rdd("run", *words)
        assert (done.code, done.last[1]) == (1, "run requires a command to execute")
    assert "COMMAND [ARGS…]" in world.rdd("run", "--help").out


@pytest.fixture
def settled(world: World) -> World:
    """Have an App whose status is settled."""
    world.rdd("set", "--wait=false", "running=true")
    write_status(world, 1, status="True", reason="Settled", message="as you like it")
    return world


def test_run_sets_path_and_contexts_and_returns_the_exit_code(settled: World) -> None:
    script = (
        "import os,json,sys;print(json.dumps({n: os.environ.get(n) for n in "
        "('PATH','DOCKER_CONTEXT','KUBECONFIG','DOCKER_HOST')}));sys.exit(7)"
    )
    done = settled.try_rdd(
        "run", "--", sys.executable, "-c", script, DOCKER_HOST="tcp://127.0.0.1:1", PATH="/usr/bin"
    )
    assert done.code == 7
    assert done.messages[-1] != "7"
    instance = settled.instance
    assert done.json() == {
        "PATH": f"{instance.tools_bin_dir}:{instance.bin_dir}:/usr/bin",
        "DOCKER_CONTEXT": instance.name,
        "KUBECONFIG": str(instance.kube_config),
        "DOCKER_HOST": None,
    }


def test_run_rejects_a_program_that_is_not_on_path(settled: World) -> None:
    done = settled.try_rdd("run", "no-such-program")
    assert (done.code, done.last[1]) == (
        1,
        '"no-such-program": executable file not found in $PATH',
    )


def test_run_forwards_signals_and_returns_128_plus_the_signal(settled: World) -> None:
    script = "import signal,sys;print('up',flush=True);signal.pause()"
    running = settled.begin("run", sys.executable, "-c", script)
    assert running.read_until() == ["up\n"]
    running.send_signal(signal.SIGTERM)
    assert settled.end(running).code == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_run_keeps_ignored_signals(settled: World, name: str) -> None:
    """As nohup, or a shell with `&`, starts it."""
    outer = f'trap \'\' {name}; exec "$0" run sh -c "$1" "$2" "$3"'
    inner = f'kill -{name} $$ && exec "$0" -c "$1"'
    code = f"import os, signal; os.kill(os.getppid(), signal.SIG{name}); print('alive')"
    done = run_program(
        ["sh", "-c", outer, settled.script, inner, sys.executable, code],
        env=settled.environment(),
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_run_warns_when_docker_config_differs_from_the_daemons(settled: World) -> None:
    done = settled.rdd("run", "true", DOCKER_CONFIG="/elsewhere")
    assert any(
        'DOCKER_CONFIG is "/elsewhere" here and "" in the daemon' in m for m in done.messages
    )


def test_shell_needs_a_running_machine_and_starts_none(
    rdd_script: Path, tmp_path: Path, kubectl: Path
) -> None:
    for fresh in make_world(rdd_script, tmp_path / "h", kubectl):
        done = fresh.try_rdd("shell", "true")
        assert (done.code, done.last[1]) == (1, "the App is not running; `rdd start` starts it")
        assert "--workdir" in fresh.rdd("shell", "--help").out
        assert "unknown flag: --nope" in fresh.try_rdd("shell", "--nope").last[1]
        assert not fresh.instance.dir.exists()


@pytest.mark.parametrize("flag", ["--contexts", "--own-tools-first"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "sh"])
def test_the_shell_profile_puts_the_tools_on_path_once(
    served: World, shell: str, flag: str, tmp_path: Path
) -> None:
    lines = served.rdd("shell-profile", "--shell", shell, "--contexts", flag).out
    file = tmp_path / "profile"
    file.write_text(lines)
    done = run_program(
        [shell, "-c", f". {file}; . {file}; printenv PATH DOCKER_CONTEXT"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    ours = f"{served.instance.tools_bin_dir}:{served.instance.bin_dir}"
    first, second = (ours, "/usr/bin:/bin")[:: -1 if flag == "--own-tools-first" else 1]
    assert done.stdout.splitlines() == [f"{first}:{second}", served.instance.name], done.stderr


def test_the_shell_profile_rejects_an_unknown_shell(served: World) -> None:
    done = served.try_rdd("shell-profile", "--shell=tcsh")
    assert (done.code, done.last[1]) == (
        1,
        'unknown shell "tcsh"; valid shells: bash, zsh, fish, sh',
    )
