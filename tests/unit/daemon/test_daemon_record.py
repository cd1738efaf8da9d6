# SPDX-License-Identifier: Apache-2.0
"""A record is valid only while its process runs; damaged arguments are rejected."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rdd.daemon.service import arguments, record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.processes import Identity, own_identity
from rdd.instance import Instance


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    found = Instance("2", tmp_path)
    found.dir.mkdir(parents=True)
    return found


def ours(**changes: object) -> DaemonRecord:
    return replace(DaemonRecord(own_identity(), version="v1"), **changes)  # type: ignore[arg-type]


def test_record_round_trips(instance: Instance) -> None:
    written = ours(
        state=State.READY, step="x", start_time="t", supervised=True, environment={"A": "b"}
    )
    record.write(instance, written)
    assert record.read(instance) == written
    assert instance.record_file.stat().st_mode & 0o777 == 0o600


def test_record_of_an_ended_daemon_is_absent_but_keeps_its_environment(instance: Instance) -> None:
    dead = replace(ours(environment={"KUBECONFIG": "x"}), process=Identity(os.getpid(), "before"))
    record.write(instance, dead)
    assert record.read(instance) is None
    assert record.last_environment(instance) == {"KUBECONFIG": "x"}


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"pid": "x"}', '{"pid":1,"started":'])
def test_damaged_record_is_absent(instance: Instance, text: str) -> None:
    instance.record_file.write_text(text)
    assert record.read(instance) is None
    assert record.last_environment(instance) == {}


def test_initial_record_never_overwrites_that_of_the_daemon(instance: Instance) -> None:
    record.write(instance, ours(state=State.SERVING))
    record.write_initial(instance, ours())
    found = record.read(instance)
    assert found is not None
    assert found.state == State.SERVING
    assert instance.pid_file.read_text() == str(os.getpid())


def test_clear_removes_the_files_of_a_run(instance: Instance) -> None:
    record.write(instance, ours())
    record.write_pid(instance, 7)
    instance.config.write_text("x")
    arguments.create(instance)
    record.clear(instance)
    record.clear(instance)
    assert [path.name for path in instance.dir.iterdir()] == ["args.json"]


def test_only_relevant_variables_are_recorded() -> None:
    variables = {"DOCKER_HOST": "x", "KUBECONFIG": "", "SECRET": "y", "PATH": "/bin"}
    assert record.environment(variables) == {"DOCKER_HOST": "x"}


def test_arguments_are_saved_once(instance: Instance) -> None:
    assert not arguments.exists(instance)
    with pytest.raises(ServiceError, match="does not exist"):
        arguments.load(instance)
    assert arguments.create(instance, ["-v", "0"])
    assert not arguments.create(instance, ["other"])
    assert arguments.load(instance) == ["--secure-port", "6445", "-v", "0"]
    assert instance.args_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '"x"', "null", '["a", "b'])
def test_damaged_arguments_are_rejected_and_kept(instance: Instance, text: str) -> None:
    instance.args_file.write_text(text)
    with pytest.raises(ServiceError, match=r"the saved arguments in .* are damaged"):
        arguments.load(instance)
    assert instance.args_file.read_text() == text


def test_empty_arguments_are_valid(instance: Instance) -> None:
    instance.args_file.write_text(json.dumps([]))
    assert arguments.load(instance) == []
