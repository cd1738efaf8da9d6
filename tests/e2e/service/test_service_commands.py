# SPDX-License-Identifier: Apache-2.0
"""The service commands: messages, files, exit codes."""

import hashlib
import json
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.service.service_world import Done, World
from tests.programs import run_program

from rdd.host.processes import identity


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- create


def test_create_saves_arguments_in_the_documented_order(world: World) -> None:
    done = world.rdd(
        "svc", "create", "--controllers", "", "--secure-port", "7000", "--", "--idle-timeout=1h"
    )
    assert done.messages == [f"successfully created {world.title}"]
    instance = world.instance
    assert json.loads(instance.args_file.read_text()) == [
        *("--secure-port", "6445", "--idle-timeout=1h", "--controllers", ""),
        *("--secure-port", "7000", "-v", "0"),
    ]
    assert (mode(instance.dir), mode(instance.args_file)) == (0o700, 0o600)
    assert world.pid() == 0


def test_create_of_an_existing_instance_changes_nothing(world: World) -> None:
    world.rdd("svc", "create", "--log-level=debug")
    before = world.instance.args_file.read_text()
    assert '"2"' in before
    done = world.rdd("svc", "create", "--secure-port=1234")
    assert done.messages == [f"{world.title} already exists"]
    assert world.instance.args_file.read_text() == before


@pytest.mark.parametrize("command", ["create", "start"])
def test_unknown_flags_of_the_daemon_are_rejected_by_name(world: World, command: str) -> None:
    done = world.try_rdd("svc", command, "--", "--etcd-servers=http://x")
    assert done.code == 1
    level, text = done.last
    assert level == "fatal"
    assert "unknown flag: --etcd-servers" in text
    assert not world.instance.args_file.exists()


# -- start


def test_start_of_a_fresh_instance_reports_progress(world: World) -> None:
    done = world.rdd("svc", "start")
    assert done.out == ""
    first, *progress, last = done.messages
    assert first == f"successfully created {world.title} with default arguments"
    assert last == f"{world.title} is ready"
    known = [
        f"starting {world.title}",
        "waiting for API server",
        "waiting for controllers to register",
        "waiting for CRDs to be established",
    ]
    assert progress == [line for line in known if line in progress]
    assert json.loads(world.instance.args_file.read_text()) == ["--secure-port", "6445"]
    world.write_first()


def test_start_creates_the_documented_files(world: World) -> None:
    world.rdd("svc", "start", RDD_LOG_TITLE="a title")
    instance = world.instance
    pid = world.pid()
    assert instance.pid_file.read_text() == str(pid)
    assert mode(instance.pid_file) == mode(instance.config) == mode(instance.record_file) == 0o600
    assert mode(instance.tls_dir) == mode(instance.log_dir) == 0o700
    assert world.log().startswith("=== a title ===\n")
    assert (instance.log_dir / "rdd.stdout.log").read_text() == "=== a title ===\n"
    assert Path(f"/proc/{pid}/cwd").resolve() == instance.dir.resolve()
    for name in ("rdd", "kubectl"):
        assert (instance.bin_dir / name).resolve() == world.script.resolve()
    version = run_program([instance.bin_dir / "rdd", "version"])
    assert version.stdout == world.rdd("version").out


def test_start_releases_the_streams_and_files_of_the_caller(world: World) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    # Returns at the end of the streams, which a daemon could keep open.
    done = run_program(
        [str(world.script), "svc", "start"], env=world.environment(), close_fds=False
    )
    assert done.returncode == 0
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    pid = world.pid()
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull


def test_start_of_a_running_control_plane_ignores_flags(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    done = world.rdd("svc", "start", "--secure-port=9999")
    assert done.messages == [f"{world.title} is already running", f"{world.title} is ready"]
    assert world.pid() == pid


def test_flags_of_start_apply_to_one_run_only(world: World) -> None:
    done = world.rdd("svc", "start", "--secure-port=0")
    assert "with default arguments; those given now apply to this run only" in done.messages[0]
    world.rdd("svc", "stop")
    world.rdd("svc", "start")
    assert json.loads(world.instance.args_file.read_text()) == ["--secure-port", "6445"]


def test_start_without_waiting_returns_immediately(world: World) -> None:
    done = world.rdd("svc", "start", "--wait=false")
    assert done.messages[-1] == f"{world.title} is starting"
    assert world.rdd("svc", "start").messages[0] == f"{world.title} is already running"


def test_start_times_out_with_exit_code_4(world: World) -> None:
    done = world.try_rdd("svc", "start", "--timeout=300ms", RDD_TEST_PAUSE="certificates")
    assert done.code == 4
    assert done.last == (
        "error",
        f"{world.title} is not ready: context deadline exceeded",
    )
    assert "exit-code=4" in done.err


def test_daemon_of_another_version_is_exit_code_5(world: World) -> None:
    world.rdd("svc", "start")
    path = world.instance.record_file
    path.write_text(path.read_text().replace('"version": "v', '"version": "v9.9.9-'))
    done = world.try_rdd("svc", "start")
    ours = world.rdd("version").out.strip()
    assert done.code == 5
    level, text = done.last
    assert level == "error"
    assert "v9.9.9-" in text
    assert ours in text
    done = world.try_rdd("svc", "config")
    assert done.code == 5
    assert world.try_rdd("svc", "start", RDD_DEVELOPER_MODE="1").code == 0


def test_start_reports_the_reason_of_a_failing_daemon(world: World) -> None:
    done = world.try_rdd("svc", "start", "--", "--builtin-controllers=nonsense")
    assert done.code == 1
    assert "unknown built-in controllers: nonsense" in done.last[1]
    done = world.try_rdd("svc", "start", "--controllers=nonsense")
    assert "unknown controllers: nonsense; valid are *" in done.last[1]


def test_damaged_saved_arguments_are_rejected(world: World) -> None:
    world.rdd("svc", "create")
    for text in ('["--secure-port", "64', "{}", "[1]", ""):
        world.instance.args_file.write_text(text)
        done = world.try_rdd("svc", "start")
        assert done.code == 1
        assert f'the saved arguments in "{world.instance.args_file}" are damaged' in done.last[1]
        assert world.instance.args_file.read_text() == text
    assert world.pid() == 0


def test_logs_rotate_and_five_are_kept(world: World) -> None:
    instance = world.instance
    instance.log_dir.mkdir(parents=True)
    for number in range(1, 8):
        (instance.log_dir / f"rdd.stderr.{number}.log").write_text("old")
    (instance.log_dir / "rdd.stderr.log").write_text("previous")
    world.rdd("svc", "start")
    names = sorted(path.name for path in instance.log_dir.glob("rdd.stderr.*.log"))
    assert names == [f"rdd.stderr.{number}.log" for number in range(4, 9)]
    assert (instance.log_dir / "rdd.stderr.8.log").read_text() == "previous"
    world.rdd("svc", "stop")
    world.rdd("svc", "start", RDD_KEEP_LOGS="1")
    assert len(list(instance.log_dir.glob("rdd.stderr.*.log"))) == 6


# -- serve


def test_serve_runs_in_the_foreground_and_creates_the_instance(world: World) -> None:
    process = world.begin("svc", "serve", "--secure-port=0")
    world.until(lambda: "ready" in world.rdd("svc", "status", "-o", "json").json()["state"])
    assert world.pid() == process.pid
    assert json.loads(world.instance.args_file.read_text()) == ["--secure-port", "6445"]
    second = world.try_rdd("svc", "serve")
    assert second.code == 1
    assert second.last[1] == f"{world.title} is already running (pid {process.pid})"
    assert world.rdd("svc", "start").messages[-1] == f"{world.title} is ready"
    process.send_signal(signal.SIGTERM)
    done = world.end(process)
    assert (done.code, done.out) == (0, "")
    assert done.messages[-1] == f"{world.title} has stopped"


def test_serve_options_lists_the_flags(world: World) -> None:
    out = world.rdd("svc", "serve", "options").out
    for flag in ("--secure-port", "--controllers", "--builtin-controllers", "--idle-timeout"):
        assert flag in out
    assert "--lock-fd" not in out
    done = world.try_rdd("svc", "serve", "now")
    assert (done.code, done.last[1]) == (1, 'rdd service serve takes flags only, not "now"')


def test_serve_with_saved_arguments_uses_them_and_the_log_files(world: World) -> None:
    world.rdd("svc", "create", "--secure-port=0", "--", "--builtin-controllers=namespace")
    process = world.begin("svc", "serve", "--saved-arguments")
    world.until(lambda: world.rdd("svc", "status", "-o", "json").json()["ready"])
    server = world.rdd("svc", "status", "-o", "json").json()["server"]
    assert server.startswith("https://127.0.0.1:")
    assert not server.endswith(":6443")
    assert "is ready on" in world.log()
    world.rdd("svc", "stop")
    assert world.end(process) == Done(0, "", "")


def test_idle_control_plane_stops_and_the_next_command_starts_it(world: World) -> None:
    world.rdd("svc", "create", "--", "--idle-timeout=5s")
    world.rdd("svc", "start")
    pid = world.pid()
    world.until(lambda: identity(pid) is None)
    assert "no request for 5 s" in world.log()
    assert not world.instance.config.exists()
    assert not world.instance.pid_file.exists()
    assert "clusters:" in world.rdd("svc", "config").out
    assert world.pid() not in (0, pid)


# -- stop


def test_stop_removes_the_files_of_a_run(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    done = world.rdd("svc", "stop")
    assert done.messages == [f"{world.title} has stopped"]
    assert identity(pid) is None
    instance = world.instance
    left = {path.name for path in instance.dir.iterdir()}
    assert left == {"args.json", "db", "tls", "version"}
    assert not list(instance.database.parent.glob("*-wal"))
    assert "level=error" not in world.log()


def test_stop_is_idempotent(world: World) -> None:
    assert world.rdd("svc", "stop").messages == [f"{world.title} does not exist"]
    assert not world.instance.dir.exists()
    world.rdd("svc", "create")
    assert world.rdd("svc", "stop").messages == [f"{world.title} is already stopped"]


def test_start_waits_for_the_end_of_a_stop_without_waiting(
    world: World,
) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    done = world.rdd("svc", "stop", "--wait=false")
    assert done.messages == [f"{world.title} is stopping"]
    world.rdd("svc", "start")
    assert world.pid() not in (0, pid)


def test_stop_times_out_and_kills_the_daemon(world: World) -> None:
    world.rdd("svc", "start", RDD_TEST_PAUSE="drain")
    pid = world.pid()
    done = world.try_rdd("svc", "stop", "--timeout=200ms")
    assert done.code == 4
    assert done.last[1] == f"{world.title} has not stopped: context deadline exceeded"
    assert world.instance.config.exists()
    world.until(lambda: identity(pid) is None)
    world.rdd("svc", "start")
    world.write_first()


def test_open_watches_do_not_delay_a_stop(world: World) -> None:
    def stop_s() -> float:
        world.rdd("svc", "start")
        config = str(world.instance.config)
        words = ("get", "ns", "-w", "-o", "name")
        watch = world.begin_program(world.kubectl_path, *words, KUBECONFIG=config)
        assert watch.read_until()[0].startswith("namespace/")
        started = time.monotonic()
        world.rdd("svc", "stop")
        took = time.monotonic() - started
        watch.communicate()
        return took

    # Below the drain timeout of the server. A busy machine may exceed it, but not every time.
    assert any(stop_s() < 2 for _ in range(5))


# -- delete, reset


def test_delete_removes_all_files(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    done = world.rdd("svc", "delete")
    assert done.messages == [f"{world.title} has been deleted"]
    assert identity(pid) is None
    instance = world.instance
    assert not any(p.exists() for p in (instance.dir, instance.log_dir, instance.short_dir))
    assert world.rdd("svc", "delete").messages == [f"{world.title} does not exist"]


def test_delete_keeps_logs_on_request(world: World) -> None:
    world.rdd("svc", "start")
    world.rdd("svc", "delete", RDD_KEEP_LOGS="1")
    assert "is ready on" in world.log()
    assert not world.instance.dir.exists()


def test_delete_removes_only_our_files_from_a_log_directory_of_the_user(
    world: World, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "mine.log").write_text("precious")
    world.variables["RDD_LOG_DIR"] = str(logs)
    world.rdd("svc", "start")
    assert (logs / "rdd.stderr.log").exists()
    world.rdd("svc", "delete")
    assert [path.name for path in logs.iterdir()] == ["mine.log"]


def test_delete_deletes_nothing_when_the_daemon_does_not_stop_in_time(world: World) -> None:
    world.rdd("svc", "start", RDD_TEST_PAUSE="deregister")
    done = world.try_rdd("svc", "delete", "--timeout=200ms")
    assert done.code == 4
    assert "context deadline exceeded" in done.last[1]
    assert world.instance.database.exists()
    assert world.instance.args_file.exists()


def test_delete_after_a_crash_also_removes_the_contexts_of_the_instance(world: World) -> None:
    docker = world.home / ".docker"
    kube = world.home / ".kube" / "config"
    world.rdd("svc", "start")
    name = world.instance.name
    kube.parent.mkdir()
    kube.write_text(
        "# mine\napiVersion: v1\nkind: Config\nclusters:\n"
        "- name: other   # keep\n  cluster: {server: https://other}\n"
        f"- cluster:\n    server: https://x\n  name: {name}\n"
        f"contexts:\n- context: {{cluster: {name}, user: {name}}}\n  name: {name}\n"
        f"current-context: {name}\nusers: []\n"
    )
    meta = docker / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text("{}")
    (docker / "config.json").write_text(f'{{\n\t"auths": {{}},\n\t"currentContext": "{name}"\n}}\n')
    world.crash()
    assert world.instance.config.exists()
    world.rdd("svc", "delete")
    assert not meta.exists()
    assert (docker / "config.json").read_text() == '{\n\t"auths": {}\n}\n'
    assert kube.read_text() == (
        "# mine\napiVersion: v1\nkind: Config\nclusters:\n"
        "- name: other   # keep\n  cluster: {server: https://other}\n"
        'contexts: []\ncurrent-context: ""\nusers: []\n'
    )
    assert not world.instance.dir.exists()


def test_delete_reports_what_it_could_not_remove_and_can_be_repeated(
    world: World, mounted: Callable[..., Path]
) -> None:
    world.rdd("svc", "start")
    world.rdd("svc", "stop")
    stuck = mounted(world.instance.short_dir / "stuck")
    done = world.try_rdd("svc", "delete")
    assert done.code == 1
    assert f'"{stuck}" was not removed: Device or resource busy' in done.last[1]
    run_program(["umount", str(stuck)], check=True)
    assert world.rdd("svc", "delete").messages == [f"{world.title} has been deleted"]


def test_reset_starts_empty_and_keeps_the_old_database(world: World) -> None:
    world.rdd("svc", "create", "--secure-port=0")
    saved = world.instance.args_file.read_text()
    world.rdd("svc", "start")
    world.write_first("treasure")
    done = world.rdd("svc", "reset")
    assert done.messages[-1] == f"{world.title} is ready"
    assert "treasure" not in world.kubectl("get", "cm", "-o", "name")
    (backup,) = world.instance.trash_dirs[0].glob("*/db")
    assert str(backup) in done.messages[0]
    assert world.instance.args_file.read_text() == saved
    world.rdd("svc", "stop")
    world.instance.database.parent.rename(world.instance.dir / "empty")
    backup.rename(world.instance.database.parent)
    world.rdd("svc", "start")
    assert "treasure" in world.kubectl("get", "cm", "-o", "name")


# -- status, config, log


def test_status_always_succeeds_and_shows_three_lines(world: World) -> None:
    def lines(**extra: str) -> list[str]:
        return world.rdd("svc", "status", "--log-level=error", **extra).messages

    def expected(created: str, started: str, pid: int) -> list[str]:
        return [
            f"{world.title} has been created: {created}",
            f"{world.title} has been started: {started}",
            f"{world.title} PID is: {pid}",
        ]

    assert lines() == expected("false", "false", 0)
    assert not world.instance.dir.exists()
    world.rdd("svc", "create")
    assert lines() == expected("true", "false", 0)
    world.rdd("svc", "start", KUBECONFIG="/somewhere/else")
    assert lines(RDD_DEVELOPER_MODE="1") == [
        *expected("true", "true", world.pid()),
        "developer mode is enabled",
    ]
    found = world.rdd("svc", "status", "-o", "json").json()
    assert found["pid"] == world.pid()
    assert (found["created"], found["started"], found["ready"]) == (True, True, True)
    assert found["environment"] == {"KUBECONFIG": "/somewhere/else"}
    done = world.try_rdd("svc", "status", "-o", "yaml")
    assert done.last[1] == 'unknown output format "yaml"; valid formats: text or json'


def test_config_starts_the_control_plane_by_default(world: World) -> None:
    done = world.try_rdd("svc", "config", "--start=false")
    assert (done.code, done.last[1]) == (1, f"{world.title} is not running")
    assert not world.instance.dir.exists()
    done = world.rdd("svc", "config")
    assert done.out == world.instance.config.read_text() + "\n"
    assert world.rdd("svc", "config", "--start=false").out == done.out


def test_log_prints_and_follows_across_restarts(world: World) -> None:
    assert world.rdd("svc", "log").out == ""
    follower = world.begin("svc", "logs", "-f")
    world.rdd("svc", "start", RDD_LOG_TITLE="one")
    assert follower.read_until() == ["=== one ===\n"]
    assert "is ready on" in world.rdd("svc", "log").out
    assert world.rdd("svc", "log", "-o").out == "=== one ===\n"
    world.rdd("svc", "stop")
    world.rdd("svc", "start", RDD_LOG_TITLE="two")
    follower.read_until(lambda line: line == "=== two ===\n")
    follower.send_signal(signal.SIGINT)
    assert world.end(follower).code == 130
