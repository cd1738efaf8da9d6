# SPDX-License-Identifier: Apache-2.0
"""Our three entries in the user's kubeconfig; every other byte stays."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import start_program

from rdd.host.contexts import kube_contexts, yaml_entries
from rdd.host.contexts.user_files import locked_like_kubectl
from rdd.host.errors import HostError

NAME = "rancher-desktop-2"
CLUSTER = {"server": "https://127.0.0.1:7443", "certificate-authority-data": "QUJD" * 30}
USER = {"client-certificate-data": "eA==", "client-key-data": "eQ=="}
ITEM = f"""\
- name: {NAME}
  cluster:
    server: https://127.0.0.1:7443
    certificate-authority-data: {"QUJD" * 30}
"""

MINE = """\
# mine
apiVersion: v1
clusters:
  - name: work      # the company
    cluster: {server: "https://work"}
contexts:
- context: {cluster: work, user: me}
  name: work
# behind the contexts
current-context: work
kind: Config
users:
- name: me
  user:
    token: |
      abc
"""


def publish(*paths: Path) -> bool:
    return kube_contexts.publish(paths, NAME, cluster=CLUSTER, user=USER)


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def named(path: Path, key: str) -> list[str]:
    return [item["name"] for item in loaded(path)[key]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MINE, id="block style with comments"),
        pytest.param(MINE.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(MINE + "preferences: {}", id="last line without an end"),
        pytest.param("apiVersion: v1\nclusters: []\nusers: []\n", id="empty lists"),
        pytest.param("clusters: # none yet\nusers: null\ncontexts: []  # none\n", id="no values"),
        pytest.param("clusters:\n\n# more\ncontexts: []\n", id="key without value"),
        pytest.param("# only a comment", id="only a comment"),
        pytest.param(
            '{"kind": "Config", "clusters": [{"name": "a"}], "users": [], "contexts": null}',
            id="JSON",
        ),
        pytest.param('{\n  "clusters": [\n    {"name": "a"}\n  ]\n}\n', id="JSON in lines"),
        pytest.param("clusters: [{name: a}]\nusers:\n  - {name: b}\n", id="flow in block"),
    ],
)
def test_entries_are_added_and_removed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    before = loaded(path) or {}
    assert publish(path)
    for key, inner, value in (("clusters", "cluster", CLUSTER), ("users", "user", USER)):
        items = loaded(path)[key]
        assert items[-1] == {"name": NAME, inner: value}
        assert items[:-1] == (before.get(key) or [])
    assert loaded(path)["contexts"][-1]["context"] == {"cluster": NAME, "user": NAME}
    assert loaded(path).get("current-context") == before.get("current-context")
    assert path.stat().st_mode & 0o777 == 0o640
    for line in text.splitlines():
        if "#" in line:
            assert line.partition("#")[2] in path.read_bytes().decode()
    stamp = path.stat().st_mtime_ns
    assert not publish(path)
    assert path.stat().st_mtime_ns == stamp
    assert kube_contexts.remove(path, NAME)
    after = {key: value for key, value in loaded(path).items() if value not in ([], None)}
    assert after == {key: value for key, value in before.items() if value not in ([], None)}
    assert sorted(os.listdir(tmp_path)) == ["config"]


def test_added_entries_are_the_only_difference(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(MINE)
    assert publish(path)
    indented = "".join("  " + line + "\n" for line in ITEM.splitlines())
    assert indented in path.read_text()
    assert kube_contexts.remove(path, NAME)
    assert path.read_text() == MINE


def test_own_entry_is_replaced_in_place(tmp_path: Path) -> None:
    path = tmp_path / "config"
    text = "clusters:\n- name: a\n# ours\n" + ITEM + "# end\n- name: z\nusers: []\n"
    path.write_text(text.replace("127.0.0.1:7443", "127.0.0.1:9"))
    assert publish(path)
    assert path.read_text().startswith(text.removesuffix("users: []\n"))


def test_namespace_set_by_the_user_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert publish(path)
    text = path.read_text().replace("    user: rancher", "    namespace: mine\n    user: rancher")
    path.write_text(text)
    assert not publish(path)
    assert kube_contexts.publish([path], NAME, cluster={"server": "https://else"}, user=USER)
    assert loaded(path)["contexts"][0]["context"]["namespace"] == "mine"


def test_new_file_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    assert publish(path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert {"apiVersion": "v1", "kind": "Config"}.items() <= loaded(path).items()


# -- several files


def test_entries_are_changed_in_their_own_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("clusters: []\n")
    second.write_text(f"# here\nclusters:\n- name: {NAME}\n  cluster: {{server: x}}\n")
    assert publish(first, second)
    assert named(second, "clusters") == [NAME]
    assert loaded(first)["clusters"] == []
    assert (named(first, "users"), named(first, "contexts")) == ([NAME], [NAME])


@pytest.mark.parametrize(
    ("existing", "written"),
    [
        pytest.param(["b"], "b", id="the first that exists"),
        pytest.param(["a", "b"], "a", id="the first"),
        pytest.param([], "c", id="none exists: the last"),
    ],
)
def test_new_entries_go_where_kubectl_puts_them(
    tmp_path: Path, existing: list[str], written: str
) -> None:
    paths = [tmp_path / name for name in "abc"]
    for name in existing:
        (tmp_path / name).write_text("kind: Config\n")
    assert publish(*paths)
    changed = [path.name for path in paths if path.exists() and NAME in path.read_text()]
    assert changed == [written]
    assert kube_contexts.make_current(paths, NAME, instead_of="")
    assert loaded(tmp_path / written)["current-context"] == NAME


def test_locations_follow_the_variable(tmp_path: Path) -> None:
    home = tmp_path
    assert kube_contexts.locations({}, home) == [home / ".kube" / "config"]
    assert kube_contexts.locations({"KUBECONFIG": ""}, home) == [home / ".kube" / "config"]
    listed = kube_contexts.locations({"KUBECONFIG": "/a::/b:/a"}, home)
    assert listed == [Path("/a"), Path("/b")]


# -- the current context


def test_current_context_is_that_of_the_first_file_with_one(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("current-context: ''\n")
    second.write_text("current-context: work\n")
    assert kube_contexts.current([first, second]) == "work"
    assert not kube_contexts.make_current([first, second], NAME, instead_of="other")
    assert kube_contexts.make_current([first, second], NAME, instead_of="work")
    assert kube_contexts.current([first, second]) == NAME
    assert first.read_text() == f'current-context: "{NAME}"\n'
    assert second.read_text() == "current-context: work\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("current-context:\nkind: Config\n", f"current-context: {NAME}\nkind: Config\n"),
        ("current-context: work # x\n", f"current-context: {NAME} # x\n"),
        ("kind: Config\n# end\n", f"kind: Config\ncurrent-context: {NAME}\n# end\n"),
        ('{"kind": "Config"}', f'{{"kind": "Config", "current-context": "{NAME}"}}'),
        ('{"current-context": "work"}', f'{{"current-context": "{NAME}"}}'),
    ],
)
def test_current_context_is_set_in_place(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "config"
    path.write_text(before)
    chosen = "work" if "work" in before else ""
    assert kube_contexts.make_current([path], NAME, instead_of=chosen)
    assert path.read_text() == after


# -- what is refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("{a", "is not YAML and was not changed", id="no YAML"),
        pytest.param("- a\n", "is not YAML and was not changed: it is not a mapping", id="a list"),
        pytest.param("a: 1\n---\nb: 2\n", "is not YAML", id="two documents"),
        pytest.param(
            "x: &a\n- name: b\nclusters: *a\nusers: *a\n", "cannot be edited in place", id="aliases"
        ),
        pytest.param("clusters: text\n", "cannot be edited", id="clusters of another type"),
        pytest.param("kind: Config\n\x00", "is not YAML", id="a NUL"),
    ],
)
def test_file_that_cannot_be_edited_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(HostError, match=why):
        publish(path)
    assert path.read_text() == text
    assert os.listdir(tmp_path) == ["config"]


def test_unreadable_file_prevents_every_write(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("kind: Config\n")
    bad.write_text("{")
    with pytest.raises(HostError, match='bad" is not YAML'):
        publish(good, bad)
    assert good.read_text() == "kind: Config\n"


def test_linked_file_stays_a_link_with_its_mode(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "kube"
    real.parent.mkdir()
    real.write_text(MINE)
    real.chmod(0o604)
    link = tmp_path / "config"
    link.symlink_to("dotfiles/kube")
    assert publish(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o604
    assert NAME in real.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner_of_a_file_is_preserved(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(MINE)
    os.chown(path, 1234, 2345)
    assert publish(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


# -- locks


def test_locked_file_is_an_error_that_names_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "config"
    (tmp_path / "config.lock").touch()
    with (
        pytest.raises(HostError, match=r'locked by another program; .*remove ".*config\.lock"'),
        locked_like_kubectl(path, wait_s=0.05),
    ):
        pass
    assert not path.exists()


def test_stale_own_lock_is_removed(tmp_path: Path) -> None:
    with start_program([sys.executable, "-c", ""]) as child:
        child.wait()
    lock = tmp_path / "config.lock"
    lock.write_text(f"rdd {child.pid}\n")
    assert publish(tmp_path / "config")
    assert not lock.exists()


def test_concurrent_writers_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(MINE)
    names = [f"rancher-desktop-{i}" for i in range(6)]

    def write(name: str) -> None:
        kube_contexts.publish([path], name, cluster=CLUSTER, user=USER)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(named(path, "clusters")) == sorted(["work", *names])
    for name in names:
        assert kube_contexts.remove(path, name)
    assert path.read_text() == MINE


# -- any file

_words = st.text("abz-:#'\" {}[]\\é\n", min_size=0, max_size=8)
_names = st.sampled_from(["a", "b", NAME, "yes", "1", "x y"])


def _entries(inner: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    body = st.dictionaries(st.sampled_from(["server", "token", "k: v"]), _words, max_size=2)
    entry = st.fixed_dictionaries({"name": _names, inner: body})
    return st.lists(entry, max_size=3, unique_by=lambda item: str(item["name"]))


_configs = st.fixed_dictionaries(
    {"kind": st.just("Config")},
    optional={
        "clusters": _entries("cluster"),
        "users": _entries("user"),
        "contexts": _entries("context"),
        "current-context": _names,
        "extensions": st.lists(_words, max_size=2),
    },
)


@settings(max_examples=100, deadline=None)
@given(config=_configs, style=st.sampled_from([False, True, None]), indent=st.sampled_from([2, 4]))
def test_any_kubeconfig_can_be_edited(
    config: dict[str, Any], style: bool | None, indent: int
) -> None:
    text = yaml.safe_dump(config, default_flow_style=style, indent=indent, allow_unicode=True)
    entry = {"name": NAME, "cluster": CLUSTER}
    change = yaml_entries.Edit(NAME, {"clusters": entry}, {"current-context": NAME})
    added = yaml_entries.edited(text, change)
    assert yaml.safe_load(added) == yaml_entries.applied(config, change)
    gone = yaml_entries.Edit(NAME, {"clusters": None, "users": None}, {"current-context": ""})
    removed = yaml.safe_load(yaml_entries.edited(added, gone))
    assert [c["name"] for c in removed["clusters"]] == [
        c["name"] for c in config.get("clusters", ()) if c["name"] != NAME
    ]
