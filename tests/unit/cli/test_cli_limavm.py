# SPDX-License-Identifier: Apache-2.0
"""The parts of `rdd limavm` that need no control plane."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rdd.api.errors import ApiError, NotFound
from rdd.api.types import Object
from rdd.cli.commands.limavm import create as limavm_create
from rdd.cli.commands.limavm import list as limavm_list
from rdd.cli.commands.limavm import object as limavm_object
from rdd.cli.commands.limavm import params as limavm_params
from rdd.cli.commands.limavm import shell as limavm_shell
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.client.blocking import Connection
from rdd.host.processes import own_identity
from rdd.vm.drivers.protocol import ShellCommand
from rdd.vm.instance_dir import LimaHome
from rdd.vm.process_files import write_pid_file


class ConfigMaps:
    """A server that has some ConfigMaps."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def get(self, path: str) -> Object:
        name = path.rpartition("/")[2]
        if name not in self.names:
            raise NotFound("")
        return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("template", "names", "expected"),
    [
        pytest.param("thing", (), None, id="a name"),
        pytest.param("thing.yaml", (), "thing.yaml", id="a name that is a file"),
        pytest.param("other.yaml", (), None, id="a name that is no file"),
        pytest.param("./thing.yaml", ("thing.yaml",), "./thing.yaml", id="a path"),
        pytest.param("dir/thing", (), "dir/thing", id="a path that does not exist"),
        pytest.param("Thing", (), "Thing", id="no name of an object"),
        pytest.param("a_b", (), "a_b", id="no name of an object either"),
    ],
)
def test_a_template_is_a_file_or_a_configmap(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    template: str,
    names: tuple[str, ...],
    expected: str | None,
) -> None:
    (tmp_path / "thing.yaml").touch()
    monkeypatch.chdir(tmp_path)
    found = limavm_create._file(cast(Connection, ConfigMaps(*names)), "default", template)
    assert found == (None if expected is None else Path(expected))


def test_rejects_template_that_is_both_file_and_configmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thing.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError) as refused:
        limavm_create._file(cast(Connection, ConfigMaps("thing.yaml")), "ns", "thing.yaml")
    assert str(refused.value) == (
        '"thing.yaml" is a file and also a ConfigMap in namespace "ns"; '
        "write ./thing.yaml for the file"
    )


@pytest.mark.parametrize(
    ("program", "workdir", "why"),
    [
        pytest.param(
            "sh", "/no/dir", 'cannot change directory to "/no/dir": No such file', id="directory"
        ),
        pytest.param("/no/sh", "/", 'cannot run "/no/sh": No such file', id="program"),
    ],
)
def test_shell_reports_missing_directory_or_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, workdir: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=why):
        limavm_shell.become(ShellCommand((program,), {"PATH": "/bin"}, Path(workdir)))


def test_control_plane_without_limavms_names_the_missing_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.contextmanager
    def connected(call: Call) -> Iterator[Connection]:
        try:
            yield cast(Connection, None)
        except ApiError as error:
            raise CommandError(error.message) from error

    monkeypatch.setattr(limavm_object, "connected", connected)
    failures = {
        "start it with the limavm controller": NotFound.resource(),
        'configmaps "x" not found': NotFound.of("configmaps", "", "x"),
    }
    for message, failure in failures.items():
        with (
            pytest.raises(CommandError, match=message),
            limavm_object.connection_for(cast(Call, None)),
        ):
            raise failure


def test_shell_takes_the_driver_from_the_template_without_a_record(tmp_path: Path) -> None:
    directory = LimaHome(tmp_path).directory("vm")
    directory.path.mkdir()
    directory.lima_yaml.write_text("vmType: host\nuser: {shell: /bin/dash}\n")
    for pid_file in (directory.ha_pid, directory.pid_file("host")):
        write_pid_file(pid_file, own_identity())
    call = SimpleNamespace(
        instance=SimpleNamespace(lima_home=tmp_path), environment=SimpleNamespace(variables={})
    )
    made = limavm_shell.shell_command(cast(Call, call), "vm", ["true"])
    assert made.argv == ("/bin/dash", "-l", "-c", "true")


def test_name_is_not_a_selector() -> None:
    asked: list[Object | None] = []

    class Nothing:
        def get(self, path: str, query: Object | None = None) -> Object:
            asked.append(query)
            return {"items": [] if query else [{"metadata": {"name": "builder"}}]}

    connection = cast(Connection, Nothing())
    with pytest.raises(CommandError, match=r"not found in any namespace$"):
        limavm_object.find(connection, "a,metadata.namespace=b")
    assert asked[0] == {"fieldSelector": r"metadata.name=a\,metadata.namespace\=b"}
    with pytest.raises(CommandError, match='not found in any namespace; did you mean "builder"'):
        limavm_object.find(connection, "builderx")


def test_params_are_set_and_removed() -> None:
    words = ["A=1", "B=", "C=x=y", "D-", "A=2"]
    assert limavm_params._parsed(words) == {"A": "2", "B": "", "C": "x=y", "D": None}


@pytest.mark.parametrize("word", ["A", "=1", "-", ""])
def test_rejects_malformed_params(word: str) -> None:
    with pytest.raises(CommandError, match="expected PARAM=VALUE, or PARAM- to remove it"):
        limavm_params._parsed([word])


def vm(*conditions: tuple[str, str, str, str], **status: Any) -> Object:
    keys = ("type", "status", "reason", "message")
    listed = [dict(zip(keys, condition, strict=True)) for condition in conditions]
    return {
        "metadata": {"name": "vm", "namespace": "ns", "generation": 3},
        "spec": {"running": True},
        "status": {"conditions": listed, **status},
    }


CREATED = ("Created", "True", "Created", "made")
STARTED = ("Running", "True", "Started", "runs")


@pytest.mark.parametrize(
    ("state", "running", "stopped", "shown"),
    [
        pytest.param(vm(), False, False, "Pending", id="new"),
        pytest.param(
            vm(("Created", "False", "CreateFailed", "no")),
            False, False, "CreateFailed", id="failed",
        ),
        pytest.param(vm(CREATED, STARTED), True, False, "Started", id="running"),
        pytest.param(
            vm(CREATED, STARTED, restartNeeded=True), False, False, "Started", id="restart is due"
        ),
        pytest.param(
            vm(CREATED, STARTED, ("Degraded", "True", "Degraded", "no dns")),
            True, False, "Degraded", id="degraded",
        ),
        pytest.param(
            vm(CREATED, ("Running", "False", "Starting", "")), False, False, "Starting", id="starts"
        ),
        pytest.param(
            vm(CREATED, ("Running", "False", "Stopped", "")), False, True, "Stopped", id="stopped"
        ),
        pytest.param(
            vm(CREATED, ("Running", "Unknown", "Reconciling", "")),
            False, False, "Reconciling", id="unknown",
        ),
    ],
)  # fmt: skip
def test_states_are_classified_by_conditions(
    state: Object, running: bool, stopped: bool, shown: str
) -> None:
    assert limavm_object.is_running(state) is running
    assert limavm_object.is_stopped(state) is stopped
    assert limavm_list._row(state)[3] == shown


def test_state_before_a_change_does_not_count() -> None:
    assert not limavm_object.covers(vm(observedGeneration=2), vm())
    assert not limavm_object.covers(vm(), vm())
    assert limavm_object.covers(vm(observedGeneration=3), vm())
    assert limavm_object.covers(vm(observedGeneration=4), vm())


def test_wait_ends_when_another_client_reverses_the_change() -> None:
    written: Object = {"metadata": {"name": "vm", "generation": 2}, "spec": {"running": True}}
    is_met = limavm_object.unless_revoked(written, limavm_object.is_running)
    assert not is_met(written)
    with pytest.raises(CommandError, match='LimaVM "vm" was stopped by another client'):
        is_met({**written, "spec": {"running": False}})


def test_long_message_is_truncated_in_the_table_but_not_in_json() -> None:
    message = "x" * 100 + "\nlog"
    state = vm(CREATED, ("Running", "False", "StartFailed", message))
    assert limavm_list._row(state)[5] == "x" * 59 + "…"
    assert limavm_list._record(state)["message"] == message
