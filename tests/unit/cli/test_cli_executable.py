# SPDX-License-Identifier: Apache-2.0
"""The installed executable: links, copies, other names, other programs, closed streams."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.programs import PIPE, CompletedProcess, run_program

from rdd.cli.framework.exec_tool import find, is_rdd
from rdd.cli.framework.program import program

Environ = Mapping[str, str]


def call(*words: object, env: Environ) -> CompletedProcess[str]:
    return run_program([str(word) for word in words], env=env)


def write_tool(path: Path, text: str = 'echo "$0 $*"') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("argv0", "name"),
    [
        ("/x/kubectl", "kubectl"),
        ("/x/kubectl.exe", "kubectl"),
        ("/x/yq", "yq"),
        ("/x/yq.rdd", "yq"),
        ("/x/yq.rdd.exe", "yq"),
        ("kubectl", "kubectl"),
        ("/x/rdd", ""),
        ("/x/kubectl-rdd", ""),
        ("/x/.kubectl", ""),
        ("/kubectl/rdd", ""),
        ("/x/__main__.py", ""),
    ],
)
def test_name_up_to_the_first_dot_selects_the_program(argv0: str, name: str) -> None:
    assert program(argv0).multicall == name


def test_program_keeps_the_path_it_was_started_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("/bin/sh")
    monkeypatch.chdir(tmp_path)
    assert program("./link").path == str(tmp_path / "link")
    assert program("./link").command == (str(tmp_path / "link"),)


def test_module_is_restarted_through_the_interpreter() -> None:
    assert program("/x/rdd/__main__.py", interpreter="/py").command == ("/py", "-m", "rdd")


@pytest.mark.parametrize("how", ["as it is", "copied", "symlinked", "hardlinked"])
def test_executable_works_from_any_location(
    rdd_script: Path, tmp_path: Path, clean_environment: Environ, how: str
) -> None:
    place = tmp_path / "some where" / "rdd"
    place.parent.mkdir()
    (place.parent / "json.py").write_text("raise SystemExit('a neighbour was imported')")
    if how == "copied":
        shutil.copy(rdd_script, place)
    elif how == "symlinked":
        place.symlink_to(rdd_script)
    elif how == "hardlinked":
        shutil.copy(rdd_script, tmp_path / "original")  # a link cannot leave its file system
        place.hardlink_to(tmp_path / "original")
    else:
        place = rdd_script
    done = call(place, "svc", "paths", "-o", "json", env=clean_environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{"args_file":')


def test_python_dash_m_runs_rdd(clean_environment: Environ) -> None:
    done = call(sys.executable, "-m", "rdd", "version", env=clean_environment)
    assert done.returncode == 0
    assert done.stdout.startswith("v")


@pytest.mark.parametrize("tool", ["kubectl", "yq"])
@pytest.mark.parametrize("by_name", [True, False], ids=["multicall", "subcommand"])
def test_tool_on_path_receives_all_arguments(
    rdd_script: Path, tmp_path: Path, clean_environment: Environ, tool: str, by_name: bool
) -> None:
    ours = tmp_path / "ours" / tool
    ours.parent.mkdir()
    ours.symlink_to(rdd_script)
    write_tool(tmp_path / "real" / tool, 'echo "$RDD_INSTANCE|$*"; exit 7')
    env = {**clean_environment, "PATH": f"{ours.parent}:{tmp_path / 'real'}:/usr/bin:/bin"}
    if by_name:
        done = call(ours, "--instance=x", "--log-level", "-h", env=env)
        assert done.stdout == "|--instance=x --log-level -h\n"
    else:
        done = call(rdd_script, "--instance=x", "--log-level=debug", tool, "get", "-h", env=env)
        assert done.stdout == "x|get -h\n"
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("version", "code"),
    [
        pytest.param("yq 3.4.3", 1, id="wrapper of jq"),
        pytest.param("yq (https://github.com/mikefarah/yq/) version v4.44.1", 0, id="mikefarah"),
        pytest.param("yq version 4.9.6", 0, id="older mikefarah"),
        pytest.param("", 0, id="no version"),
    ],
)
def test_yq_of_the_other_family_is_refused_with_the_reason(
    rdd_script: Path, tmp_path: Path, clean_environment: Environ, version: str, code: int
) -> None:
    script = f'[ "$1" = --version ] && {{ echo "{version}"; exit; }}; echo "ran $*"'
    write_tool(tmp_path / "yq", script)
    env = {**clean_environment, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = call(rdd_script, "yq", ".a", env=env)
    assert done.returncode == code
    if code:
        assert f"is a wrapper of jq with jq's syntax ({version})" in done.stderr
        assert "https://github.com/mikefarah/yq" in done.stderr
    else:
        assert done.stdout == "ran .a\n"


def test_missing_tool_is_reported(
    rdd_script: Path, tmp_path: Path, clean_environment: Environ
) -> None:
    (tmp_path / "yq").symlink_to(rdd_script)
    done = call(rdd_script, "yq", env={**clean_environment, "PATH": f"{tmp_path}:relative:"})
    assert (done.returncode, done.stdout) == (1, "")
    assert 'level=fatal msg="no yq found on PATH (links to rdd do not count)' in done.stderr
    assert done.stderr.count("\n") == 1


def test_tool_that_cannot_run_is_reported_by_name(
    rdd_script: Path, tmp_path: Path, clean_environment: Environ
) -> None:
    broken = tmp_path / "kubectl"
    broken.write_text("#!/does/not/exist\n")
    broken.chmod(0o755)
    done = call(rdd_script, "kubectl", env={**clean_environment, "PATH": str(tmp_path)})
    assert done.returncode == 1
    assert f'failed to run \\"{broken}\\": No such file or directory' in done.stderr


def test_rdd_is_recognised_behind_every_link_and_copy(rdd_script: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(rdd_script)
    shutil.copy(rdd_script, tmp_path / "copy")
    (tmp_path / "hard").hardlink_to(tmp_path / "copy")
    native = tmp_path / "elsewhere" / "rdd.bin"
    native.parent.mkdir()
    native.write_bytes(b"\x7fELF")
    (tmp_path / "native").symlink_to(native)
    assert all(is_rdd(tmp_path / name) for name in ("link", "copy", "hard", "native"))
    assert not is_rdd(write_tool(tmp_path / "other"))


def test_only_executable_files_are_tools(tmp_path: Path) -> None:
    (tmp_path / "a" / "kubectl").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "kubectl").write_text("not executable")
    real = write_tool(tmp_path / "c" / "kubectl")
    assert find("kubectl", [str(tmp_path / name) for name in "abc"]) == real
    assert find("kubectl", [str(tmp_path / name) for name in "ab"]) is None


def test_full_disk_is_reported_in_one_line(rdd_script: Path, clean_environment: Environ) -> None:
    with open("/dev/full", "w") as full:
        done = run_program([rdd_script, "version"], env=clean_environment, stdout=full, stderr=PIPE)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'msg="cannot use stdout: No space left on device"' in done.stderr


def test_closed_pipe_ends_without_a_message(rdd_script: Path, clean_environment: Environ) -> None:
    read, write = os.pipe()
    os.close(read)
    done = run_program(
        [rdd_script, "svc", "paths"], env=clean_environment, stdout=write, stderr=PIPE
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)])
def test_closed_streams_are_tolerated(
    rdd_script: Path, clean_environment: Environ, redirect: str, code: int
) -> None:
    done = call("sh", "-c", f'"$0" version {redirect}', rdd_script, env=clean_environment)
    assert (done.returncode, done.stderr) == (code, "")
