# SPDX-License-Identifier: Apache-2.0
"""`rdd tools` and `rdd update` without a control plane: arguments, lists, the installer of rdd."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.cli.commands.tools.own_installation import installation
from rdd.fetch.digests import Digest
from rdd.toolbox.catalogue import Catalogue, CatalogueFile
from rdd.toolbox.installation import FetchedFile, Toolbox

Rdd = Callable[..., Any]
COMPOSE = Catalogue.shipped().tool("compose")
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def toolbox(home: Path, tmp_path: Path) -> Toolbox:
    """Have two versions of Compose."""
    found = Toolbox(home / ".rd2" / "tools")
    (tmp_path / "compose").write_bytes(b"program")
    file = CatalogueFile("https://files.example/compose", programs={"": "docker-compose"})
    fetched = FetchedFile(file, tmp_path / "compose", Digest.of(tmp_path / "compose"))
    for version in ("2.39.2", "2.40.3"):
        found.install(COMPOSE, version, [fetched])
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["nope"], 'there is no tool "nope"; available tools: buildx', id="tool"),
        pytest.param(["helm@x"], '"x" is not a version of helm such as', id="version"),
        pytest.param(["helm@"], '"" is not a version of helm such as', id="empty version"),
        pytest.param(["helm@../x"], '"../x" is not a version of helm', id="path"),
        pytest.param(["k3s"], "`rdd set kubernetes.version=VERSION` selects it", id="k3s"),
        pytest.param(["helm", "--digest=x"], "must begin with one of sha256", id="digest"),
        pytest.param(["helm", f"--digest=x={DIGEST}"], 'there is no file "x"', id="file"),
        pytest.param(
            ["engine", f"--digest={DIGEST}"], "there are several files; write FILE=DIGEST", id="one"
        ),
        pytest.param(["helm", "nerdctl", f"--digest={DIGEST}"], "needs a single tool", id="two"),
    ],
)
def test_bad_arguments_are_rejected_before_anything_starts(
    rdd: Rdd, home: Path, words: list[str], message: str
) -> None:
    outcome = rdd("tools", "install", "--log-format=json", *words)
    assert outcome.code == 1
    assert message in json.loads(outcome.err)["msg"]
    assert list(home.iterdir()) == []


def test_tools_are_listed(rdd: Rdd, toolbox: Toolbox) -> None:
    lines = rdd("tools", "ls").out.splitlines()
    (row,) = [line for line in lines if line.startswith("compose")]
    assert "2.39.2 2.40.3*" in row
    found = {one["name"]: one for one in json.loads(rdd("tools", "ls", "-o", "json").out)}
    assert "k3s" not in found
    assert [one["isCurrent"] for one in found["compose"]["installed"]] == [False, True]
    assert found["docker"]["installed"] == []


def test_installed_version_is_put_to_use_without_a_control_plane(
    rdd: Rdd, home: Path, toolbox: Toolbox
) -> None:
    outcome = rdd("tools", "install", "compose@2.39.2")
    assert outcome.out.startswith("compose 2.39.2 is installed already: ")
    assert "docker does not find docker-compose yet: add --link-plugins" in outcome.err
    assert toolbox.current("compose") == "2.39.2"
    assert not (home / ".docker").exists()


def test_one_version_or_all_are_removed_with_their_link(
    rdd: Rdd, home: Path, toolbox: Toolbox
) -> None:
    rdd("tools", "install", "--link-plugins", "compose")
    link = home / ".docker" / "cli-plugins" / "docker-compose"
    assert link.read_bytes() == b"program"
    assert rdd("tools", "remove", "compose@2.40.3").code == 0
    assert toolbox.current("compose") == "2.39.2"
    assert link.read_bytes() == b"program"
    assert rdd("tools", "rm", "compose").code == 0
    assert not link.is_symlink()
    assert '\\"compose\\" is not installed' in rdd("tools", "remove", "compose").err


def test_link_of_the_user_stays(rdd: Rdd, home: Path, toolbox: Toolbox) -> None:
    link = home / ".docker" / "cli-plugins" / "docker-compose"
    link.parent.mkdir(parents=True)
    link.symlink_to("/usr/libexec/mine")
    outcome = rdd("tools", "install", "--link-plugins", "compose")
    assert "is another docker-compose, which docker prefers" in outcome.err
    rdd("tools", "remove", "compose")
    assert str(link.readlink()) == "/usr/libexec/mine"


UV_DIRECTORY = '[tool]\nrequirements = [{ name = "rdd", directory = "/src/rdd" }]\n'
UV_INDEX = '[tool]\nrequirements = [{ name = "rdd", specifier = ">=0.2" }, { name = "x" }]\n'


def pipx(source: str, suffix: str = "") -> str:
    return json.dumps({"main_package": {"package_or_url": source, "suffix": suffix}})


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        pytest.param("uv-receipt.toml", UV_DIRECTORY, ("uv", "/src/rdd"), id="uv, directory"),
        pytest.param("uv-receipt.toml", UV_INDEX, ("uv", ""), id="uv, index"),
        pytest.param("uv-receipt.toml", "[tool", None, id="uv, damaged"),
        pytest.param("uv-receipt.toml", "[tool]\nrequirements = 1\n", None, id="uv, other form"),
        pytest.param("pipx_metadata.json", pipx("/src/rdd"), ("pipx", "/src/rdd"), id="pipx"),
        pytest.param("pipx_metadata.json", pipx("rdd[x]>=0.2"), ("pipx", ""), id="pipx, index"),
        pytest.param("pipx_metadata.json", pipx("Rdd"), ("pipx", ""), id="pipx, index, case"),
        pytest.param(
            "pipx_metadata.json",
            pipx("git+https://h/rdd"),
            ("pipx", "git+https://h/rdd"),
            id="pipx, URL",
        ),
        pytest.param("pipx_metadata.json", "{}", None, id="pipx, other form"),
        pytest.param("pyvenv.cfg", "", None, id="neither"),
    ],
)
def test_installer_and_its_source_are_recognised(
    tmp_path: Path, file: str, text: str, expected: tuple[str, str] | None
) -> None:
    (tmp_path / file).write_text(text)
    found = installation(tmp_path)
    assert (found and (found.program, found.source)) == expected


def test_suffix_of_pipx_is_part_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").write_text(pipx("/src/rdd", "@dev"))
    found = installation(tmp_path)
    assert found is not None
    assert found.command == ("pipx", "upgrade", "rdd@dev")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("uv-receipt.toml", UV_INDEX, id="uv"),
        pytest.param("pipx_metadata.json", pipx("RDD"), id="pipx"),
    ],
)
def test_nothing_is_installed_from_an_index(
    rdd: Rdd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    """The name belongs to another project in the public one."""
    (tmp_path / file).write_text(text)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    for program in ("uv", "pipx"):
        (tmp_path / program).write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
        (tmp_path / program).chmod(0o755)
    outcome = rdd("update", "--yes", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert outcome.code == 0
    assert "It is not updated from there: in the public index another project has" in outcome.out
    assert not (tmp_path / "was-run").exists()


def test_update_leaves_another_installation_alone(rdd: Rdd) -> None:
    out = rdd("update", "--yes").out
    assert out.startswith("No tools are installed.\n")
    assert "was not installed by pipx or uv" in out
