# SPDX-License-Identifier: Apache-2.0
"""Instance directories: names, files, status, pid files."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import run_program, start_program

from rdd.host.errors import HostError
from rdd.host.processes import Identity, identity, own_identity
from rdd.vm.instance_dir import (
    InstanceDirectory,
    InstanceRecord,
    InstanceStatus,
    InvalidName,
    LimaHome,
    check_name,
    check_socket_path,
)
from rdd.vm.process_files import live_process, read_identity, write_identity, write_pid_file
from rdd.vm.template import HostFacts, TemplateError

FACTS = HostFacts(
    arch="x86_64", cpus=2, memory_bytes=8 << 30, user="jo", uid=1000, home=Path("/home/jo")
)


@pytest.fixture
def directory(tmp_path: Path) -> InstanceDirectory:
    """A complete, stopped instance."""
    found = LimaHome(tmp_path).directory("vm")
    found.path.mkdir()
    found.lima_yaml.write_text("cpus: 1\n")
    found.write_record(InstanceRecord("host", "1.2.3"))
    return found


@pytest.fixture
def sleeper() -> Iterator[Identity]:
    """A live process."""
    with start_program(["sleep", "600"]) as process:
        found = identity(process.pid)
        assert found is not None
        yield found


@pytest.mark.parametrize("name", ["a", "A1", "rd", "a.b", "a_b", "a-b-c", "0", "a" * 76])
def test_accepts_valid_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "a" * 77, "_x", "-a", "a-", "a--b", "a._b", "ä", "a/b", "a b", ".", "..", "a\n"]
)
def test_rejects_invalid_names_with_the_rule(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_name(name)
    assert str(caught.value) == (
        f'invalid name "{name}": allowed are letters and digits, separated by single ".", "_" or '
        f'"-", at most 76 characters'
    )


def test_socket_path_is_measured_in_bytes() -> None:
    check_socket_path(Path("/" + "x" * 102))
    with pytest.raises(HostError) as caught:
        check_socket_path(Path("/" + "ä" * 52))
    assert str(caught.value).endswith(
        '" has 105 bytes, which must be less than 104: use a shorter name or a shorter home '
        "directory"
    )


def test_socket_limit_depends_on_the_driver() -> None:
    home = Path("/" + "h" * 60)
    InstanceDirectory(home / ("n" * 15)).check_socket_paths("qemu")
    with pytest.raises(HostError, match=r"ssh\.sock\.1234567890123456"):
        InstanceDirectory(home / ("n" * 16)).check_socket_paths("qemu")
    InstanceDirectory(home / ("n" * 33)).check_socket_paths("host")
    with pytest.raises(HostError, match=r"ha\.sock"):
        InstanceDirectory(home / ("n" * 34)).check_socket_paths("host")


def test_lists_directories_with_valid_names(tmp_path: Path) -> None:
    for name in ("b", "a", "_config", "_disks", ".a.deleting"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    home = LimaHome(tmp_path)
    assert home.names() == ["a", "b"]
    assert home.open("a") == home.directory("a")
    assert home.open("c") is None
    assert LimaHome(tmp_path / "nowhere").names() == []
    with pytest.raises(InvalidName):
        home.directory("_config")


def test_status_follows_from_agent_and_driver(
    directory: InstanceDirectory, sleeper: Identity
) -> None:
    assert directory.status() is InstanceStatus.STOPPED
    write_pid_file(directory.ha_pid, own_identity())
    assert directory.status() is InstanceStatus.BROKEN
    write_pid_file(directory.pid_file("qemu"), sleeper)
    assert directory.status() is InstanceStatus.RUNNING
    directory.ha_pid.unlink()
    assert directory.status() is InstanceStatus.BROKEN


def test_incomplete_instance_is_uninitialized(directory: InstanceDirectory) -> None:
    directory.preparing.touch()
    assert directory.status() is InstanceStatus.UNINITIALIZED
    directory.preparing.unlink()
    directory.lima_yaml.unlink()
    assert directory.status() is InstanceStatus.UNINITIALIZED
    assert InstanceDirectory(directory.path / "none").status() is InstanceStatus.UNINITIALIZED


def test_pid_file_has_limas_form_and_an_identity_file(
    directory: InstanceDirectory, sleeper: Identity
) -> None:
    write_pid_file(directory.pid_file("host"), sleeper)
    assert directory.pid_file("host").read_text() == f"{sleeper.pid}\n"
    assert read_identity(directory.identity_file("host")) == sleeper
    assert directory.driver_process() == sleeper


def test_reused_pid_is_not_the_recorded_process(
    directory: InstanceDirectory, sleeper: Identity
) -> None:
    write_pid_file(directory.ha_pid, Identity(sleeper.pid, "another time"))
    assert directory.agent() is None


def test_pid_without_identity_needs_a_process_older_than_its_file(
    directory: InstanceDirectory, sleeper: Identity
) -> None:
    directory.ha_pid.write_text(f"{sleeper.pid}\n")
    assert directory.agent() == sleeper
    before = time.time() - 3600
    os.utime(directory.ha_pid, (before, before))
    assert directory.agent() is None


def test_identity_of_another_process_is_ignored(
    directory: InstanceDirectory, sleeper: Identity
) -> None:
    write_identity(directory.ha_identity, own_identity())
    directory.ha_pid.write_text(f"{sleeper.pid}\n")
    assert directory.agent() == sleeper


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "99999999", "1 2"])
def test_pid_file_without_a_process_yields_none(directory: InstanceDirectory, text: str) -> None:
    directory.ha_pid.write_text(text)
    assert live_process(directory.ha_pid, directory.ha_identity) is None


def test_zombie_is_dead(directory: InstanceDirectory) -> None:
    with start_program([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is a zombie
        directory.ha_pid.write_text(f"{child.pid}\n")
        assert directory.agent() is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": "x", "started": 1}', "null", "7"])
def test_damaged_identity_is_none(directory: InstanceDirectory, text: str) -> None:
    directory.ha_identity.write_text(text)
    assert read_identity(directory.ha_identity) is None


def test_driver_is_the_recorded_one(directory: InstanceDirectory) -> None:
    assert directory.driver == "host"
    assert directory.read_record() == InstanceRecord("host", "1.2.3")
    directory.record.unlink()
    assert directory.driver == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "{"])
def test_damaged_record_is_reported_with_its_path(directory: InstanceDirectory, text: str) -> None:
    directory.record.write_text(text)
    with pytest.raises(HostError, match=r'rdd\.json" is damaged'):
        directory.read_record()


def test_template_is_resolved_from_lima_yaml(directory: InstanceDirectory) -> None:
    template = directory.template(FACTS)
    assert (template.cpus, template.memory, template.user.name) == (1, 0, "jo")


def test_cached_template_is_used_only_for_the_same_lima_yaml(
    directory: InstanceDirectory,
) -> None:
    directory.refresh_template(FACTS)
    kept = json.loads(directory.template_cache.read_text())
    kept["template"] = kept["template"].replace('"cpus": 1', '"cpus": 3')
    directory.template_cache.write_text(json.dumps(kept))
    assert directory.template(FACTS).cpus == 3
    directory.lima_yaml.write_text("cpus: 2\n")
    assert directory.template(FACTS).cpus == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"source": "cpus: 1\\n", "template": 7}'])
def test_damaged_template_cache_is_ignored(directory: InstanceDirectory, text: str) -> None:
    directory.template_cache.write_text(text)
    assert directory.template(FACTS).cpus == 1


def test_cached_template_is_loaded_without_yaml(directory: InstanceDirectory) -> None:
    directory.refresh_template(FACTS)
    code = (
        "import sys; from pathlib import Path; from rdd.vm.instance_dir import InstanceDirectory;"
        f"assert InstanceDirectory(Path({str(directory.path)!r})).template().cpus == 1;"
        "print('yaml' in sys.modules, 'rdd.vm.template.rules' in sys.modules)"
    )
    done = run_program([sys.executable, "-c", code], check=True)
    assert done.stdout == "False False\n"


def test_missing_or_invalid_lima_yaml_is_reported(directory: InstanceDirectory) -> None:
    directory.lima_yaml.write_text("cpus: x")
    with pytest.raises(TemplateError):
        directory.template(FACTS)
    directory.lima_yaml.unlink()
    with pytest.raises(HostError, match=r'lima\.yaml" is missing'):
        directory.template(FACTS)
    with pytest.raises(HostError, match=r'lima\.yaml" is missing'):
        directory.refresh_template(FACTS)


def test_removes_only_temporary_files_of_a_dead_machine(
    directory: InstanceDirectory,
) -> None:
    for name in ("ha.pid", "ha.identity", "ha.sock", "x.tmp", "disk", "ha.stdout.log"):
        (directory.path / name).touch()
    (directory.path / "sock").mkdir()
    (directory.path / "dir.sock").mkdir()
    directory.remove_temporary_files()
    names = sorted(path.name for path in directory.path.iterdir())
    assert names == ["dir.sock", "disk", "ha.stdout.log", "lima.yaml", "rdd.json", "sock"]
    InstanceDirectory(directory.path / "none").remove_temporary_files()
