# SPDX-License-Identifier: Apache-2.0
"""Our Docker context is created, selected and removed beside foreign ones."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.host.contexts import docker_contexts, json_members
from rdd.host.errors import HostError

NAME = "rancher-desktop-2"
HOST = "unix:///home/ann/.rd2/docker.sock"


def meta(directory: Path, name: str = NAME) -> Any:
    return json.loads(docker_contexts.metadata_path(directory, name).read_text())


def test_context_is_written_once(tmp_path: Path) -> None:
    directory = tmp_path / ".docker"
    assert docker_contexts.publish(directory, NAME, host=HOST)
    assert meta(directory) == {
        "Name": NAME,
        "Metadata": {"Description": f"Rancher Desktop {NAME}"},
        "Endpoints": {"docker": {"Host": HOST, "SkipTLSVerify": False}},
    }
    assert not docker_contexts.publish(directory, NAME, host=HOST)
    assert docker_contexts.publish(directory, NAME, host="unix:///other")
    assert meta(directory)["Endpoints"]["docker"]["Host"] == "unix:///other"
    assert os.listdir(directory) == ["contexts"]
    assert docker_contexts.remove(directory, NAME)
    assert not docker_contexts.remove(directory, NAME)


def test_foreign_context_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    path = docker_contexts.metadata_path(tmp_path, NAME)
    path.parent.mkdir(parents=True)
    theirs = json.dumps(
        {"Name": NAME, "Metadata": {}, "Endpoints": {"docker": {"Host": "ssh://box"}}}
    )
    path.write_text(theirs)
    with pytest.raises(HostError, match=f"was not created by rdd; .*docker context rm {NAME}"):
        docker_contexts.publish(tmp_path, NAME, host=HOST)
    assert not docker_contexts.remove(tmp_path, NAME)
    assert path.read_text() == theirs


def test_unreadable_metadata_is_replaced(tmp_path: Path) -> None:
    path = docker_contexts.metadata_path(tmp_path, NAME)
    path.parent.mkdir(parents=True)
    path.write_text("{half")
    assert docker_contexts.publish(tmp_path, NAME, host=HOST)
    assert meta(tmp_path)["Name"] == NAME


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, f'{{\n\t"currentContext": "{NAME}"\n}}\n', id="no file"),
        pytest.param("", f'{{\n\t"currentContext": "{NAME}"\n}}\n', id="empty file"),
        pytest.param("{}", f'{{\n\t"currentContext": "{NAME}"\n}}', id="nothing in it"),
        pytest.param(
            '{\n\t"auths": {"x": {"auth": "\\u0041"}}\n}\n',
            f'{{\n\t"auths": {{"x": {{"auth": "\\u0041"}}}},\n\t"currentContext": "{NAME}"\n}}\n',
            id="beside others",
        ),
        pytest.param('{"a":1}', f'{{"a":1, "currentContext": "{NAME}"}}', id="in one line"),
        pytest.param(
            '{"currentContext": "", "a": [1,  2]}',
            f'{{"currentContext": "{NAME}", "a": [1,  2]}}',
            id="there already",
        ),
    ],
)
def test_selection_changes_one_member(tmp_path: Path, before: str | None, after: str) -> None:
    path = tmp_path / "config.json"
    if before is not None:
        path.write_text(before)
        path.chmod(0o640)
    assert docker_contexts.make_current(tmp_path, NAME, instead_of="")
    assert path.read_text() == after
    assert path.stat().st_mode & 0o777 == (0o600 if before is None else 0o640)
    assert docker_contexts.current(tmp_path) == NAME


def test_concurrent_selection_is_respected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    assert not docker_contexts.make_current(tmp_path, NAME, instead_of="")
    assert docker_contexts.current(tmp_path) == "mine"


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"a": 1} x'])
def test_unreadable_file_is_an_error_and_unchanged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(HostError, match="was not changed"):
        docker_contexts.make_current(tmp_path, NAME, instead_of="")
    with pytest.raises(HostError, match="was not changed"):
        docker_contexts.current(tmp_path)
    docker_contexts.publish(tmp_path, NAME, host=HOST)
    assert docker_contexts.remove(tmp_path, NAME)
    assert path.read_text() == text


def test_removal_clears_the_selection(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n  "auths": {},\n  "currentContext": "rancher-desktop-2"\n}')
    docker_contexts.publish(tmp_path, NAME, host=HOST)
    assert docker_contexts.remove(tmp_path, NAME)
    assert path.read_text() == '{\n  "auths": {}\n}'


def test_linked_configuration_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "config.json").symlink_to(real)
    assert docker_contexts.make_current(directory, NAME, instead_of="")
    assert (directory / "config.json").is_symlink()
    assert NAME in real.read_text()


def test_concurrent_instances_lose_no_update(tmp_path: Path) -> None:
    names = [f"rancher-desktop-{i}" for i in range(8)]

    def work(name: str) -> None:
        docker_contexts.publish(tmp_path, name, host=HOST)
        docker_contexts.make_current(tmp_path, name, instead_of="")

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [meta(tmp_path, name)["Name"] for name in names] == names
    assert docker_contexts.current(tmp_path) in names


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    config=st.dictionaries(st.sampled_from(["a", "currentContext", 'é"', "{", "x,y"]), _values),
    indent=st.sampled_from([None, 1, "\t"]),
    ascii_=st.booleans(),
)
def test_any_object_can_be_edited(config: Any, indent: Any, ascii_: bool) -> None:
    text = json.dumps(config, indent=indent, ensure_ascii=ascii_)
    changed = json_members.set_member(text, "currentContext", "x")
    assert json.loads(changed) == {**config, "currentContext": "x"}
    removed = json_members.without_member(changed, "currentContext")
    wanted = {key: value for key, value in config.items() if key != "currentContext"}
    assert json.loads(removed) == wanted
    if "currentContext" not in config and config:
        assert removed == text
