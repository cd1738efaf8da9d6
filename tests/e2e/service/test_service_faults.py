# SPDX-License-Identifier: Apache-2.0
"""Faults of real machines: crashes, races, stale files, busy ports, damaged databases."""

import json
import os
import random
import re
import signal
import socket
import time

import pytest
from tests.e2e.service.service_world import World
from tests.programs import run_program, start_program

from rdd.daemon.service import record
from rdd.host.processes import identity
from rdd.instance import index

START_STEPS = (
    *("store", "certificates", "server", "listen"),
    *("register", "controllers", "requirements"),
)
STOP_STEPS = ("drain", "deregister", "api", "store")


def paused_at(world: World, step: str) -> bool:
    return f'msg="paused at {step}"' in world.log()


# -- races


def test_concurrent_starts_result_in_one_daemon_and_all_succeed(world: World) -> None:
    processes = [world.begin("svc", "start") for _ in range(4)]
    ended = [world.end(process) for process in processes]
    assert [done.code for done in ended] == [0] * 4, ended
    assert all(done.messages[-1] == f"{world.title} is ready" for done in ended)
    assert sum(f"starting {world.title}" in done.messages for done in ended) == 1
    pid = world.pid()
    assert world.log().count("is ready on") == 1
    assert not list(world.instance.log_dir.glob("*.1.log"))
    world.rdd("svc", "stop")
    assert identity(pid) is None


def test_delete_during_start_removes_all_files(world: World) -> None:
    start = world.begin("svc", "start", RDD_TEST_PAUSE="server")
    world.until(lambda: paused_at(world, "server"))
    world.rdd("svc", "delete")
    done = world.end(start)
    assert done.code == 1
    assert "before it was ready" in done.last[1]
    instance = world.instance
    assert not any(p.exists() for p in (instance.dir, instance.short_dir, instance.log_dir))


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.2])
def test_delete_at_any_moment_of_a_start_is_atomic(world: World, delay_s: float) -> None:
    start = world.begin("svc", "start")
    time.sleep(delay_s)
    world.rdd("svc", "delete")
    done = world.end(start)
    assert done.code in (0, 1)
    if done.code == 0:
        # The start created a new instance after the deletion, or was complete before it.
        assert world.pid() != 0 or not world.instance.args_file.exists()
    else:
        assert world.pid() == 0
    world.rdd("svc", "start")
    world.write_first()


OBSERVING = (
    ("status",),
    ("doctor",),
    ("service", "status"),
    ("service", "config", "--start=false"),
)


@pytest.mark.parametrize("step", ["store", "listen", "register", "drain", "api"])
def test_half_started_and_half_stopped_daemon_shows_no_traceback(world: World, step: str) -> None:
    world.rdd("svc", "start", "--wait=false", RDD_TEST_PAUSE=step)
    if step not in START_STEPS:
        world.until(lambda: world.instance.config.exists())
        world.until(lambda: world.try_rdd("svc", "status", "--output=json").json()["ready"])
        world.rdd("svc", "stop", "--wait=false")
    world.until(lambda: paused_at(world, step))
    for words in (*OBSERVING, ("support-bundle", str(world.home / "bundle.tar.gz"))):
        done = world.try_rdd(*words)
        assert done.code in (0, 1), done
        assert "Traceback" not in done.err
        assert "unexpected error" not in done.err


def test_stop_during_start_shuts_down_in_order(world: World) -> None:
    world.rdd("svc", "start", "--wait=false", RDD_TEST_PAUSE="controllers")
    world.until(lambda: paused_at(world, "controllers"))
    pid = world.pid()
    assert world.rdd("svc", "stop").messages == [f"{world.title} has stopped"]
    assert identity(pid) is None
    assert not world.instance.config.exists()
    assert "level=error" not in world.log()


def test_daemon_started_by_a_background_job_can_be_interrupted(world: World) -> None:
    script = f"'{world.script}' svc start & wait $!"
    run_program(["sh", "-c", script], env=world.environment(), check=True)
    assert world.rdd("svc", "stop", "--timeout=20s").messages == [f"{world.title} has stopped"]


def test_two_instances_with_the_same_index_run_side_by_side(world: World) -> None:
    one, two = world.named("ab"), world.named("ba")
    assert index("ab") == index("ba")
    processes = [w.begin("svc", "start") for w in (one, two)]
    assert [w.end(p).code for w, p in zip((one, two), processes, strict=True)] == [0, 0]
    servers = {w.rdd("svc", "status", "-o", "json").json()["server"] for w in (one, two)}
    assert len(servers) == 2
    one.write_first("of-one")
    assert "of-one" not in two.kubectl("get", "cm", "-o", "name")
    one.rdd("svc", "delete")
    two.write_first()
    two.rdd("svc", "stop")


def test_concurrent_commands_leave_a_working_control_plane(world: World) -> None:
    chooser = random.Random(5)
    commands = (["start"], ["start", "--wait=false"], ["stop"], ["delete"], ["status"], ["create"])
    processes = [world.begin("svc", *chooser.choice(commands)) for _ in range(24)]
    for done in [world.end(process) for process in processes]:
        assert "Traceback" not in done.err
        # Only a start that another command stops may fail.
        assert done.code == 0 or "before it was ready" in done.last[1], done
    world.rdd("svc", "start")
    world.write_first()
    world.rdd("svc", "delete")
    assert not world.instance.dir.exists()


# -- crashes


@pytest.mark.parametrize("step", START_STEPS)
def test_start_works_after_a_crash_during_start(world: World, step: str) -> None:
    world.rdd("svc", "start", "--wait=false", RDD_TEST_PAUSE=step)
    world.until(lambda: paused_at(world, step))
    world.crash()
    assert world.rdd("svc", "status", "-o", "json").json()["started"] is False
    world.rdd("svc", "start")
    world.write_first()


@pytest.mark.parametrize("step", STOP_STEPS)
def test_start_works_after_a_crash_during_stop(world: World, step: str) -> None:
    world.rdd("svc", "start", RDD_TEST_PAUSE="" if step == "store" else step)
    world.write_first("kept")
    if step == "store":  # it is a step of the start, too
        os.kill(world.pid(), signal.SIGTERM)
        world.until(lambda: world.pid() == 0)
    else:
        world.rdd("svc", "stop", "--wait=false")
        world.until(lambda: paused_at(world, step))
        world.crash()
    world.rdd("svc", "start")
    assert "kept" in world.kubectl("get", "cm", "-o", "name")
    world.write_first()


def test_crash_ends_a_waiting_start(world: World) -> None:
    start = world.begin("svc", "start", RDD_TEST_PAUSE="server")
    world.until(lambda: paused_at(world, "server"))
    world.crash()
    done = world.end(start)
    assert done.code == 1
    log = world.instance.log_dir / "rdd.stderr.log"
    assert done.last[1] == f'{world.title} stopped before it was ready; its log is "{log}"'


def test_daemon_survives_the_command_that_started_it(world: World) -> None:
    start = world.begin("svc", "start", RDD_TEST_PAUSE="requirements")
    world.until(lambda: paused_at(world, "requirements"))
    start.kill()
    world.end(start)
    pid = world.pid()
    assert pid
    world.rdd("svc", "stop")
    assert identity(pid) is None


def test_next_command_cleans_up_after_a_crash(world: World) -> None:
    world.rdd("svc", "start")
    world.crash()
    instance = world.instance
    assert instance.pid_file.exists()
    assert instance.config.exists()
    assert world.rdd("svc", "status", "-o", "json").json()["pid"] == 0
    assert not any(p.exists() for p in (instance.pid_file, instance.config, instance.record_file))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, "was killed (by SIGKILL or another signal that leaves no trace)"),
        (signal.SIGSEGV, "had a fatal error (Segmentation fault); the stacks of its threads"),
        (signal.SIGABRT, "had a fatal error (Aborted); the stacks of its threads"),
        (signal.SIGBUS, "had a fatal error (Bus error); the stacks of its threads"),
    ],
)
def test_status_names_how_a_daemon_was_lost(
    world: World, number: signal.Signals, reason: str
) -> None:
    world.rdd("svc", "start")
    world.crash(number)
    assert reason in world.rdd("svc", "status").messages[-1]
    assert reason in world.rdd("svc", "status", "-o", "json").json()["lastCrash"]
    assert reason in world.try_rdd("status").out
    assert any(reason in message for message in world.rdd("svc", "start").messages)
    # A supervisor may have started it long before a user looks.
    assert reason in world.rdd("svc", "status").messages[-1]
    assert "started after a crash" in world.rdd("status").out
    assert "level=warning" in world.log()
    assert reason in world.log().replace("\\", "")
    world.rdd("svc", "stop")
    assert world.rdd("svc", "status", "-o", "json").json()["lastCrash"] == ""


def test_supervised_start_notes_how_the_daemon_before_it_was_lost(world: World) -> None:
    world.rdd("svc", "start")
    world.crash(signal.SIGSEGV)
    world.begin("svc", "serve", "--saved-arguments", "--secure-port=0")
    world.until(lambda: world.pid() and "ended unexpectedly" in world.log())
    old = (world.instance.log_dir / "rdd.stderr.1.log").read_text()
    assert "Segmentation fault" in world.log(), old
    world.until(lambda: world.rdd("svc", "status", "-o", "json").json()["ready"])
    assert "Segmentation fault" in world.rdd("svc", "status").messages[-1]


def test_reused_process_id_is_neither_trusted_nor_signalled(world: World) -> None:
    world.rdd("svc", "start")
    world.crash()
    with start_program(["sleep", "60"]) as bystander:
        stale = json.loads(world.instance.record_file.read_text())
        stale["pid"] = bystander.pid
        world.instance.record_file.write_text(json.dumps(stale))
        world.instance.pid_file.write_text(str(bystander.pid))
        assert world.rdd("svc", "stop").messages == [f"{world.title} is already stopped"]
        assert bystander.poll() is None
        world.instance.pid_file.write_text(str(bystander.pid))
        world.rdd("svc", "start")
        assert world.pid() != bystander.pid


def test_damaged_files_of_a_run_do_not_prevent_a_start(world: World) -> None:
    world.rdd("svc", "create")
    instance = world.instance
    for garbage in ("", "not a number", '{"pid": "x"}', "99999999999999999999"):
        for path in (instance.pid_file, instance.record_file, instance.config):
            path.write_text(garbage)
        assert world.rdd("svc", "status", "-o", "json").json()["started"] is False
    world.rdd("svc", "start")
    world.write_first()


# -- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_shuts_down_in_order(world: World, number: signal.Signals) -> None:
    process = world.begin("svc", "serve", "--secure-port=0", "-v=2")
    world.until(lambda: world.rdd("svc", "status", "-o", "json").json()["ready"])
    process.send_signal(number)
    done = world.end(process)
    assert done.code == 0
    steps = [m.removeprefix("stopping: ") for m in done.messages if m.startswith("stopping: ")]
    assert steps == ["drain", "deregister", "api", "store"]
    assert "level=error" not in done.err


def test_second_signal_exits_immediately_with_code_1(world: World) -> None:
    process = world.begin("svc", "serve", "--secure-port=0", RDD_TEST_PAUSE="drain")
    world.until(lambda: world.rdd("svc", "status", "-o", "json").json()["ready"])
    process.send_signal(signal.SIGTERM)
    world.until(lambda: world.rdd("svc", "status", "-o", "json").json()["state"] == "stopping")
    process.send_signal(signal.SIGTERM)
    done = world.end(process)
    assert done.code == 1
    assert done.messages[-1] == "second signal (SIGTERM): exiting immediately"
    world.rdd("svc", "start")
    world.write_first()


# -- ports, clocks, databases


def test_busy_port_is_replaced(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        world.rdd("svc", "start", f"--secure-port={port}")
        server = world.rdd("svc", "status", "-o", "json").json()["server"]
        assert server != f"https://127.0.0.1:{port}"
        world.write_first()


@pytest.mark.parametrize("years", [-20, 20])
def test_file_times_are_ignored(world: World, years: int) -> None:
    """A jump of the clock makes files very old or new."""
    world.rdd("svc", "start")
    then = time.time() + years * 365 * 86400
    for path in world.instance.dir.rglob("*"):
        os.utime(path, (then, then))
    pid = world.pid()
    assert world.rdd("svc", "start").messages[-1] == f"{world.title} is ready"
    assert world.pid() == pid
    world.crash()
    world.rdd("svc", "start")
    world.write_first()
    world.rdd("svc", "stop")


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "not ours"])
def test_damaged_database_is_named_and_kept(world: World, damage: str) -> None:
    world.rdd("svc", "start")
    world.write_first("treasure")
    world.rdd("svc", "stop")
    database = world.instance.database
    healthy = database.read_bytes()
    if damage == "truncated":
        database.write_bytes(healthy[: len(healthy) // 2])
    elif damage == "garbage":
        database.write_bytes(os.urandom(len(healthy)))
    elif damage == "empty":
        database.write_bytes(b"")
    else:
        database.write_bytes(healthy[:68] + b"abcd" + healthy[72:])
    damaged = database.read_bytes()
    done = world.try_rdd("svc", "start")
    assert done.code == 1
    assert str(database) in done.last[1]
    assert "`rdd service reset`" in done.last[1]
    assert database.read_bytes() == damaged
    done = world.rdd("svc", "reset")
    world.write_first("first")
    (backup,) = world.instance.trash_dirs[0].glob("*/db")
    assert (backup / database.name).read_bytes() == damaged


def test_first_write_after_a_start_never_fails(world: World, soak: bool) -> None:
    for number in range(50 if soak else 10):
        world.rdd("svc", "start")
        world.write_first(f"write-{number}")
        world.rdd("svc", "stop")
    assert record.read(world.instance) is None


# -- hangs


def test_stopped_daemon_is_reported_and_left_alone(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        for words in (("svc", "status"), ("svc", "start"), ("set", "running=false")):
            done = world.try_rdd(*words)
            assert done.code == 1
            assert done.messages[-1] == (
                f"{world.title} does not respond: process {pid} is stopped by a signal (T); "
                f"to continue it: kill -CONT {pid}"
            )
        done = world.try_rdd("status")
        assert done.code == 1
        assert f"process {pid} is stopped by a signal (T)" in done.out
        assert f"next step: kill -CONT {pid}" in done.out
    finally:
        os.kill(pid, signal.SIGCONT)
    assert world.rdd("svc", "start").messages[-1] == f"{world.title} is ready"
    world.rdd("svc", "status")
    assert world.pid() == pid


@pytest.mark.parametrize("words", [("stop",), ("delete", "--yes", "--no-trash")])
def test_stopped_daemon_is_continued_to_end(world: World, words: tuple[str, ...]) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    os.kill(pid, signal.SIGSTOP)
    world.rdd("svc", *words)
    assert identity(pid) is None


def test_commands_do_not_wait_for_a_stopped_daemon(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        for words in ("get", "history", "disk prune", "limavm list", "delete", "ctl get app"):
            done = world.try_rdd(*words.split())
            assert done.code == 1
            assert f"to continue it: kill -CONT {pid}" in done.last[1]
        done = world.try_rdd("disk")
        assert done.code == 0
        assert f"kill -CONT {pid}" in done.messages[0]
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("answers", [False, True], ids=["refused", "silent"])
def test_unreachable_control_plane_is_named_with_the_next_step(world: World, answers: bool) -> None:
    """Its process runs, and nothing, or a program that never responds, has its port."""
    world.rdd("svc", "start")
    config = world.instance.config
    text = config.read_text()
    port = re.search(r"server: https://127\.0\.0\.1:(\d+)", text)
    assert port is not None
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if answers:
            other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        config.write_text(text.replace(f"127.0.0.1:{port[1]}", address))
        done = world.try_rdd("get")
        config.write_text(text)
    assert done.code == 1
    why = "net/http: TLS handshake timeout" if answers else "Connection refused"
    assert done.last[1].startswith(
        f"{world.title} does not respond at {address}: {why}; process {world.pid()} is "
    )
    assert done.last[1].endswith("; to find the cause: rdd doctor")
