# SPDX-License-Identifier: Apache-2.0
"""`rdd ps`, `images`, `volumes`, `logs` and `exec` against the real daemon and a real engine."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import Dockerd, dockerd
from tests.e2e.engine_desktop import RUNNING, engine_desktop
from tests.e2e.service.service_world import World
from tests.programs import PIPE, run_program, start_program

IN_ORDER = True  # the last test stops the machine

START = ("svc", "start", "--", "--controllers=containers", "--secure-port=0")


@pytest.fixture(scope="module")
def engine(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dockerd]:
    with dockerd(real_part, tmp_path_factory.mktemp("d")) as made:
        yield made


@pytest.fixture(scope="module")
def desktop(
    engine: Dockerd,
    rdd_script: Path,
    kubectl: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Run a daemon with the containers controllers; the test writes the App."""
    home = tmp_path_factory.mktemp("h")
    yield from engine_desktop(engine, rdd_script, kubectl, home, START)


@contextmanager
def mirrored(desktop: World, engine: Dockerd, id_: str) -> Iterator[str]:
    """Wait for the mirror of a container; remove it and wait for the end of its mirror."""
    try:
        desktop.until(lambda: id_[:12] in desktop.rdd("ps", "-aq").out)
        yield id_
    finally:
        engine.remove(id_)
        desktop.until(lambda: id_[:12] not in desktop.rdd("ps", "-aq").out)


@pytest.fixture
def container(engine: Dockerd, desktop: World) -> Iterator[str]:
    """Run a container named web, and wait until it has written both lines of its output."""
    id_ = engine.run(
        "web",
        Cmd=["sh", "-c", "echo one; echo two >&2; exec sleep 1000"],
        ExposedPorts={"80/tcp": {}},
        HostConfig={"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18090"}]}},
    )
    with mirrored(desktop, engine, id_):
        desktop.until(lambda: desktop.rdd("ps", "-q").out.strip() == id_[:12])
        desktop.until(lambda: desktop.rdd("logs", "web").out.count("\n") == 2)
        yield id_


def test_ps_lists_running_containers_and_with_all_every_one(
    desktop: World, engine: Dockerd, container: str
) -> None:
    lines = desktop.rdd("ps").out.splitlines()
    assert lines[0].split() == [
        "CONTAINER", "ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS",
    ]  # fmt: skip
    assert len(lines) == 2
    for text in (container[:12], "web", "busybox:latest", "running", "127.0.0.1:18090->80/tcp"):
        assert text in lines[1]
    with mirrored(desktop, engine, engine.create("idle")):
        assert "idle" not in desktop.rdd("ps").out
        found = json.loads(desktop.rdd("ps", "--all", "-o", "json").out)
        assert {status["name"]: status["status"] for status in found} == {
            "web": "running",
            "idle": "created",
        }
        assert desktop.rdd("ps", "-a", "-n", "other").out.count("\n") == 1


def test_ps_prints_one_line_per_container(desktop: World, engine: Dockerd) -> None:
    id_ = engine.run("lines", Cmd=["sh", "-c", "echo a\nsleep 9\x1b[31m"])
    with mirrored(desktop, engine, id_):
        out = desktop.rdd("ps", "-a").out
        assert r"sh -c echo a\nsleep 9\x1b[31m" in out
        assert out.count("\n") == 2


def test_ps_shows_the_image_as_given_and_the_health(desktop: World, engine: Dockerd) -> None:
    engine.call("POST", "/images/busybox/tag?repo=registry.example.com/tools&tag=1.2")
    id_ = engine.run(
        "checked",
        Image="registry.example.com/tools:1.2",
        Cmd=["sleep", "1000"],
        Healthcheck={"Test": ["CMD-SHELL", "test -e /ok"], "Interval": 10**9, "Retries": 1},
    )
    with mirrored(desktop, engine, id_):
        desktop.until(lambda: "(unhealthy)" in desktop.rdd("ps").out)
        desktop.rdd("exec", "checked", "sh", "-c", "echo > /ok")
        desktop.until(lambda: "(healthy)" in desktop.rdd("ps").out)
        assert "registry.example.com/tools:1.2" in desktop.rdd("ps").out
    engine.call("DELETE", "/images/registry.example.com/tools:1.2")


def test_kubectl_shows_the_state_at_a_glance(
    desktop: World, engine: Dockerd, container: str
) -> None:
    header, row = desktop.kubectl("get", "containers").splitlines()
    assert header.split() == [
        "NAME", "RUNNING", "CONTAINER", "IMAGE", "STATE", "HEALTH", "PORTS", "CREATED",
    ]  # fmt: skip
    assert row.split()[:5] == [container, "True", "web", "busybox:latest", "running"]
    assert "127.0.0.1:18090->80/tcp" in row
    assert "sha256:" not in row
    assert "sha256:" in desktop.kubectl("get", "containers", "-o", "wide")
    desktop.until(lambda: "busybox" in desktop.kubectl("get", "images"))
    header, row, *_ = desktop.kubectl("get", "images").splitlines()
    assert header.split() == ["NAME", "TAG", "CREATED", "SIZE", "READABLE-SIZE"]
    assert " MB" in row and "sha256:" not in row
    assert "sha256:" in desktop.kubectl("get", "images", "-o", "wide")
    header, row = desktop.kubectl("get", "app").splitlines()
    assert header.split() == ["NAME", "RUNNING", "SETTLED", "ENGINE", "KUBERNETES", "AGE"]
    assert row.split()[:2] == ["app", "True"]
    for kind in ("containers", "images", "app"):  # the built-in client prints the same
        shown = desktop.rdd("ctl", "get", kind, "-o", "wide", RDD_KUBECTL="builtin").out
        expected = desktop.kubectl("get", kind, "-o", "wide")
        assert shown.splitlines()[0].split() == expected.splitlines()[0].split()


def test_images_and_volumes(desktop: World, engine: Dockerd) -> None:
    desktop.until(lambda: "busybox" in desktop.rdd("images").out)
    lines = desktop.rdd("images").out.splitlines()
    assert lines[0].split() == ["REPOSITORY", "TAG", "IMAGE", "ID", "CREATED", "SIZE"]
    assert lines[1].split()[:2] == ["busybox", "latest"]
    assert " MB" in lines[1]
    engine.call("POST", "/volumes/create", {"Name": "some-data"})
    desktop.until(lambda: desktop.rdd("volumes", "-q").out == "some-data\n")
    assert desktop.rdd("volumes").out.splitlines()[1].split()[:2] == ["some-data", "local"]


def test_removal_asks_on_a_terminal_and_shows_what_goes(desktop: World, engine: Dockerd) -> None:
    engine.call("POST", "/images/busybox/tag?repo=spare&tag=1")
    engine.call("POST", "/volumes/create", {"Name": "spare"})
    desktop.until(lambda: "spare" in desktop.rdd("images").out)
    desktop.until(lambda: "spare" in desktop.rdd("volumes").out)
    for answer in ("n\n", "\n", "\x04"):
        done = desktop.on_terminal("image", "rm", "spare:1", typed=answer)
        assert done.code == 1
        assert "This removes:\n  image spare:1 (" in done.out
        assert "Continue? [y/N]" in done.out
        assert "not confirmed; nothing was changed" in done.out
    command = f"{desktop.script} image rm spare:1"
    with start_program(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        env=desktop.environment(),
        stdin=PIPE,
    ) as asking:
        asking.read_until(lambda line: "image spare:1" in line)
        assert asking.stdin is not None
        asking.stdin.write("\x03")
        asking.stdin.flush()
        assert asking.wait() == 130
    assert "spare" in desktop.rdd("images").out
    done = desktop.on_terminal("image", "rm", "spare:1", typed="y\n")
    assert done.code == 0
    assert "spare" not in desktop.rdd("images").out
    done = desktop.on_terminal("volume", "rm", "--yes", "spare")
    assert (done.code, "volume spare with its data" in done.out) == (0, True)
    assert "Continue?" not in done.out
    assert "spare" not in desktop.rdd("volumes").out


def test_removal_without_a_terminal_asks_nothing(desktop: World, engine: Dockerd) -> None:
    engine.call("POST", "/volumes/create", {"Name": "spare"})
    desktop.until(lambda: "spare" in desktop.rdd("volumes").out)
    done = desktop.rdd("volume", "rm", "--yes", "spare")
    assert done.messages == [
        "This removes:",
        "  volume spare with its data",
        "removed volume spare with its data",
    ]


def test_removal_of_what_is_in_use_or_unknown_removes_nothing(
    desktop: World, engine: Dockerd
) -> None:
    engine.call("POST", "/volumes/create", {"Name": "spare"})
    id_ = engine.run("user", Cmd=["sleep", "1000"], HostConfig={"Binds": ["used:/data"]})
    with mirrored(desktop, engine, id_):
        desktop.until(lambda: {"used", "spare"} <= set(desktop.rdd("volumes", "-q").out.split()))
        for words, text in (
            (("volume", "rm", "spare", "used"), 'volume "used" is used by container "user"'),
            (("volume", "rm", "spare", "spaer"), 'no such volume: "spaer"; did you mean "spare"?'),
            (("volume", "rm", "spare", ""), 'no such volume: ""'),
            (("image", "rm", "busybox"), 'image "busybox:latest" is used by container "user"'),
            (("image", "rm", "none"), 'no such image: "none"'),
            (("image", "rm", "f" * 64), "no such image"),
        ):
            done = desktop.try_rdd(*words)
            assert (done.code, text in done.last[1]) == (1, True), done
        assert {"used", "spare"} <= set(desktop.rdd("volumes", "-q").out.split())
    desktop.rdd("volume", "rm", "spare", "used")


def test_delete_and_reset_show_what_goes_before_they_ask(
    desktop: World, engine: Dockerd, container: str
) -> None:
    desktop.until(lambda: "busybox" in desktop.rdd("images").out)
    volumes = len(desktop.rdd("volumes", "-q").out.split())
    counted = f"1 container, {volumes} volume{'s' * (volumes != 1)}, 1 image, "
    for words in (("delete",), ("reset",), ("service", "delete")):
        done = desktop.on_terminal(*words, typed="n\n")
        assert (done.code, counted in done.out) == (1, True), done
        assert "not confirmed; nothing was changed" in done.out
    done = desktop.on_terminal("service", "reset", typed="n\n")
    assert (done.code, "This replaces the database" in done.out) == (1, True)
    assert container[:12] in desktop.rdd("ps").out


def test_completion_of_containers_images_volumes_and_kubectl(
    desktop: World, engine: Dockerd, container: str
) -> None:
    desktop.until(lambda: "busybox" in desktop.rdd("images").out)
    engine.call("POST", "/volumes/create", {"Name": "kept"})
    desktop.until(lambda: "kept" in desktop.rdd("volumes").out)
    for words, expected in (
        (("logs", "w"), "web\tbusybox:latest running\n"),
        (("exec", "-i", "w"), "web\tbusybox:latest running\n"),
        (("exec", "web", ""), ""),
        (("image", "rm", "busybox:"), "busybox:latest\t"),
        (("volume", "rm", "ke"), "kept\tlocal\n"),
        (("volume", "rm", "kept", "ke"), ""),
    ):
        out = desktop.rdd("__complete", *words).out
        assert (out == "") if expected == "" else out.startswith(expected), (words, out)
    assert f"{container}\t" in desktop.rdd("__complete", "ctl", "get", "containers", "").out
    desktop.rdd("volume", "rm", "kept")


def test_ls_shows_state_engine_ports_disk_and_memory(desktop: World) -> None:
    (found,) = desktop.rdd("ls", "-o", "json").json()
    assert (found["name"], found["state"], found["engine"]) == ("2", "running", "moby")
    config = desktop.instance.config.read_text()
    assert f"https://127.0.0.1:{found['ports']['api']}" in config
    assert found["diskBytes"] > 100_000 and found["isDiskComplete"]
    assert found["memoryBytes"] > 20 * 1024 * 1024
    assert "problem" not in found
    row = desktop.rdd("ls").out.splitlines()[1]
    assert row.split()[:3] == ["2", "running", "moby"]
    assert "MiB" in row


def test_ls_does_not_wait_for_a_control_plane_that_hangs(desktop: World) -> None:
    os.kill(desktop.pid(), signal.SIGSTOP)
    try:
        row = desktop.rdd("ls").out.splitlines()[1]
    finally:
        os.kill(desktop.pid(), signal.SIGCONT)
    assert row.startswith("2      ready, not responding")


def test_logs_of_a_container_by_name_and_by_a_prefix_of_its_id(
    desktop: World, container: str
) -> None:
    assert sorted(desktop.rdd("logs", "web").out.splitlines()) == ["one", "two"]
    assert desktop.rdd("logs", container[:4], "--tail", "1").out in ("one\n", "two\n")
    stamped = desktop.rdd("logs", "-t", "web").out
    assert stamped.startswith("20")


def test_logs_are_followed_until_the_container_ends(desktop: World, engine: Dockerd) -> None:
    id_ = engine.run("short", Cmd=["sh", "-c", "echo first; sleep 0.5; echo last"])
    with mirrored(desktop, engine, id_):
        assert desktop.rdd("logs", "-f", "short").out == "first\nlast\n"


def test_logs_end_with_their_reader(desktop: World, engine: Dockerd) -> None:
    id_ = engine.run("many", Cmd=["seq", "200000"])
    engine.post(id_, "wait")
    with mirrored(desktop, engine, id_):
        done = run_program(
            ["bash", "-c", '"$0" logs many | head -1; exit ${PIPESTATUS[0]}', str(desktop.script)],
            env=desktop.environment(),
        )
        assert (done.returncode, done.stdout, done.stderr) == (141, "1\n", "")


def test_exec_accepts_several_variables(desktop: World, container: str) -> None:
    words = ("-e", "A=1 2", "--env=B=3", "-w", "/bin", "web", "sh", "-c", 'echo "$A,$B"; pwd')
    assert desktop.rdd("exec", *words).out == "1 2,3\n/bin\n"


def test_exec_has_the_streams_and_the_exit_code_of_the_command(
    desktop: World, container: str
) -> None:
    done = desktop.try_rdd("exec", "web", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    words = ("exec", "-i", "-w", "/bin", "-e", "A=b", "web", "sh", "-c", "cat; pwd; echo $A")
    fed = run_program([desktop.script, *words], env=desktop.environment(), input="typed\n")
    assert (fed.returncode, fed.stdout) == (0, "typed\n/bin\nb\n")


def test_exec_in_a_terminal(desktop: World, container: str) -> None:
    words = f"{desktop.script} exec -it web sh -c 'read line; echo got $line; stty size; exit 4'"
    # script(1) runs it with a terminal of its own and returns its exit code.
    typed = f"stty rows 40 cols 100; {words}"
    done = run_program(
        ["script", "--quiet", "--return", "--command", typed, "/dev/null"],
        env=desktop.environment(),
        input="hello\r",
    )
    assert done.returncode == 4
    assert "got hello" in done.stdout
    assert "40 100" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(["logs", "none"], 'no such container: "none"', id="unknown"),
        pytest.param(["logs", "wbe"], '"wbe"; did you mean "web"?', id="mistyped"),
        pytest.param(["logs", "--tail", "x", "web"], 'invalid value "x" for --tail', id="tail"),
        pytest.param(["exec", "web"], "requires at least 2 arg(s)", id="no command"),
        pytest.param(["exec", "none", "ls"], 'no such container: "none"', id="exec unknown"),
        pytest.param(["exec", "-it", "web", "sh"], "the input is not a terminal", id="no terminal"),
        pytest.param(["ps", "-o", "xml"], 'unknown output format "xml"', id="output"),
    ],
)
def test_invalid_arguments_are_reported(
    words: list[str], text: str, desktop: World, container: str
) -> None:
    done = desktop.try_rdd(*words)
    assert done.code == 1
    assert text in done.err.replace('\\"', '"')


def test_exec_in_a_stopped_container_is_an_error(desktop: World, engine: Dockerd) -> None:
    with mirrored(desktop, engine, engine.create("idle")) as id_:
        done = desktop.try_rdd("exec", "idle", "ls")
        assert done.code == 1
        assert f"Container {id_} is not running" in done.err


def test_help_names_the_flags_of_exec(desktop: World) -> None:
    assert "--interactive" in desktop.rdd("exec", "--help").out


def test_disk_shows_and_frees_the_space_of_the_engine(desktop: World, engine: Dockerd) -> None:
    engine.call("POST", "/volumes/create", {"Name": "precious"})
    members = {"Labels": {"team": "a"}, "HostConfig": {"Binds": ["scratch:/v"]}}
    id_ = engine.run("full", Cmd=["dd", "if=/dev/zero", "of=/x", "bs=1M", "count=5"], **members)
    engine.post(id_, "wait")
    found = json.loads(desktop.rdd("disk", "-o", "json").out)
    assert found["engine"]["problem"] == ""
    rows = {row["name"]: row for row in found["engine"]["items"]}
    assert set(rows) == {"images", "shared layers", "containers", "volumes", "build cache"}
    assert rows["containers"]["reclaimableBytes"] >= 5 << 20
    assert rows["images"]["bytes"] > 0
    assert "5.0 MiB" in desktop.rdd("disk").out

    preview = desktop.rdd("disk", "prune", "containers", "volumes", "-a", "--dry-run").out
    assert "container full, 5.0 MiB" in preview
    assert "volume precious" in preview
    assert json.loads(
        desktop.rdd("disk", "prune", "--label=team=b", "--dry-run", "-o", "json").out
    )["items"] == []  # fmt: skip
    desktop.until(lambda: id_[:12] in desktop.rdd("ps", "-aq").out)
    done = desktop.rdd("disk", "prune", "--label=team=a", "--yes")
    assert "1 items removed, 5.0 MiB freed" in done.out
    desktop.until(lambda: id_[:12] not in desktop.rdd("ps", "-aq").out)
    names = {volume["Name"] for volume in engine.call("GET", "/volumes")["Volumes"]}
    assert {"precious", "scratch"} <= names  # volumes go only if they are named
    desktop.rdd("disk", "prune", "volumes", "--yes")
    assert {"precious", "scratch"} <= names  # and those with a name only with --all
    result = json.loads(desktop.rdd("disk", "prune", "volumes", "-a", "-y", "-o", "json").out)
    assert result["removed"] >= 2
    assert engine.call("GET", "/volumes")["Volumes"] in (None, [])


def test_disk_prune_asks_and_keeps_everything_without_consent(
    desktop: World, engine: Dockerd
) -> None:
    id_ = engine.create("idle")
    for answer, code in (("n\r", 1), ("y\r", 0)):
        done = run_program(
            ["script", "-qec", f"{desktop.script} disk prune containers", "/dev/null"],
            env=desktop.environment(),
            input=answer,
        )
        assert done.returncode == code
        assert "container idle" in done.stdout
        assert len(engine.call("GET", "/containers/json?all=1")) == code
    desktop.until(lambda: id_[:12] not in desktop.rdd("ps", "-aq").out)


def test_commands_report_that_the_engine_is_not_connected(desktop: World) -> None:
    assert desktop.rdd("images").err == ""
    stopped = {**RUNNING, "status": "False", "reason": "Stopped"}
    status = json.dumps({"status": {"conditions": [stopped]}})
    desktop.kubectl("patch", "app/app", "--subresource=status", "--type=merge", "-p", status)
    why = "the container engine is not connected: Container engine stopped"
    desktop.until(lambda: why in desktop.rdd("ps").err)
    desktop.until(lambda: desktop.rdd("images", "-o", "json").out == "[]\n")
    done = desktop.try_rdd("logs", "web")
    assert done.code == 1
    assert f'no such container: "web"; {why}' in done.err.replace('\\"', '"')
