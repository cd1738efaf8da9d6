# SPDX-License-Identifier: Apache-2.0
"""Removal of our entries from the user's files; every other byte stays."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from rdd.host.contexts import docker_contexts, kube_contexts
from rdd.host.errors import HostError

NAME = "rancher-desktop-2"

BLOCK = """\
# my clusters
apiVersion: v1
kind: Config
clusters:
  # of the company
  - cluster:
      server: https://work   # vpn
    name: work
  - cluster:
      server: https://127.0.0.1:7443
      certificate-authority-data: >-
        abc
        def
    name: rancher-desktop-2
  # at home
  - name: "home"
    cluster: {server: 'https://home'}
contexts:
- context:
    cluster: rancher-desktop-2
    user: rancher-desktop-2
  name: rancher-desktop-2
# end of contexts
current-context: rancher-desktop-2
preferences: {}
users:
- {name: work, user: {token: x}}
- name: rancher-desktop-2
  user:
    token: |
      abc
"""
BLOCK_WITHOUT = """\
# my clusters
apiVersion: v1
kind: Config
clusters:
  # of the company
  - cluster:
      server: https://work   # vpn
    name: work
  # at home
  - name: "home"
    cluster: {server: 'https://home'}
contexts: []
# end of contexts
current-context: ""
preferences: {}
users:
- {name: work, user: {token: x}}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BLOCK, BLOCK_WITHOUT, id="block style with comments"),
        pytest.param(BLOCK.replace("\n", "\r\n"), BLOCK_WITHOUT.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(
            '{"clusters": [{"name": "a"}, {"name": "rancher-desktop-2"}], "users": '
            '[{"name": "rancher-desktop-2"}, {"name": "b"}], "current-context": "a"}',
            '{"clusters": [{"name": "a"}], "users": [{"name": "b"}], "current-context": "a"}',
            id="JSON",
        ),
        pytest.param(
            "clusters:\n- name: rancher-desktop-2",
            "clusters: []\n",
            id="last line without an end",
        ),
    ],
)  # fmt: skip
def test_entries_are_removed(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    assert kube_contexts.remove(path, NAME)
    assert path.read_bytes().decode() == after
    assert path.stat().st_mode & 0o777 == 0o640
    assert not kube_contexts.remove(path, NAME)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("clusters: []\n", id="no entry"),
        pytest.param("# rancher-desktop-2\nclusters: []\n", id="only a comment"),
        pytest.param("clusters:\n- name: rancher-desktop-22\n", id="a longer name"),
        pytest.param("- rancher-desktop-2\n", id="no mapping"),
        pytest.param("", id="empty"),
    ],
)
def test_files_without_our_entries_keep_every_byte(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    stamp = path.stat().st_mtime_ns
    assert not kube_contexts.remove(path, NAME)
    assert (path.read_text(), path.stat().st_mtime_ns) == (text, stamp)


def test_missing_file_is_not_created(tmp_path: Path) -> None:
    assert not kube_contexts.remove(tmp_path / "config", NAME)
    assert not docker_contexts.remove(tmp_path / "docker", NAME)
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_not_yaml_is_an_error_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("{rancher-desktop-2")
    with pytest.raises(HostError, match="is not YAML and was not changed"):
        kube_contexts.remove(path, NAME)
    assert path.read_text() == "{rancher-desktop-2"


def test_file_that_cannot_be_edited_is_an_error_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config"
    text = "x: &a\n- name: rancher-desktop-2\nclusters: *a\nusers: *a\n"
    path.write_text(text)
    with pytest.raises(HostError, match="cannot be edited"):
        kube_contexts.remove(path, NAME)
    assert path.read_text() == text


def test_linked_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text(BLOCK)
    link = tmp_path / "config"
    link.symlink_to(real)
    assert kube_contexts.remove(link, NAME)
    assert link.is_symlink()
    assert yaml.safe_load(real.read_text())["current-context"] == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            '{\n\t"auths": {},\n\t"currentContext": "rancher-desktop-2"\n}\n',
            '{\n\t"auths": {}\n}\n',
            id="last",
        ),
        pytest.param('{"currentContext":"rancher-desktop-2", "x":1}', '{"x":1}', id="first"),
        pytest.param('{"currentContext": "rancher-desktop-2"}', "{}", id="only"),
        pytest.param('{"currentContext": "other"}', '{"currentContext": "other"}', id="another"),
        pytest.param("not json rancher-desktop-2", "not json rancher-desktop-2", id="no JSON"),
    ],
)
def test_docker_context_is_removed_with_its_selection(
    tmp_path: Path, before: str, after: str
) -> None:
    (tmp_path / "config.json").write_text(before)
    metas = tmp_path / "contexts" / "meta"
    ours, other = (metas / hashlib.sha256(n.encode()).hexdigest() for n in (NAME, "other"))
    for path in (ours, other):
        path.mkdir(parents=True)
        (path / "meta.json").write_text(json.dumps({"Name": path.name}))
    assert docker_contexts.remove(tmp_path, NAME)
    assert (tmp_path / "config.json").read_text() == after
    assert (ours.exists(), other.exists()) == (False, True)
