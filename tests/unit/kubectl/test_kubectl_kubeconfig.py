# SPDX-License-Identifier: Apache-2.0
"""Server and credentials that kubeconfig files and flags select."""

import base64
from pathlib import Path

import pytest

from rdd.base.pflag import Flags, Value
from rdd.kubectl.errors import FAILURES, KubectlError
from rdd.kubectl.flags import make_flags
from rdd.kubectl.kubeconfig import connection_config, locate

FIRST = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c, cluster: {server: "https://first:1/"}}
- {name: files, cluster: {server: "https://f", certificate-authority: ca.pem}}
contexts:
- {name: one, context: {cluster: c, user: u, namespace: mine}}
- {name: two, context: {cluster: files, user: on}}
- {name: lost, context: {cluster: gone, user: u}}
users:
- {name: u, user: {token: "0123"}}
- {name: on, user: {tokenFile: token}}
- {name: plugin, user: {exec: {command: x}}}
"""
SECOND = """
current-context: two
clusters: [{name: c, cluster: {server: "https://second"}}, {name: d, cluster: {server: "https://d"}}]
contexts: [{name: three, context: {cluster: d, user: u}}]
"""


def given(**values: Value) -> Flags:
    named: dict[str, Value] = {key.replace("_", "-"): value for key, value in values.items()}
    return make_flags(named)


@pytest.fixture
def files(tmp_path: Path) -> str:
    (tmp_path / "ca.pem").write_text("PEM")
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "first").write_text(FIRST)
    (tmp_path / "second").write_text(SECOND)
    return f"{tmp_path}/missing:{tmp_path}/first:{tmp_path}/second"


def test_first_file_with_an_entry_wins(files: str) -> None:
    config = locate(given(), {"KUBECONFIG": files})
    target = connection_config(config, given())
    assert (target.server, target.token, target.namespace) == ("https://first:1", "0123", "mine")
    assert sorted(config.entries["contexts"]) == ["lost", "one", "three", "two"]
    assert connection_config(config, given(context="three")).server == "https://d"


def test_file_names_are_relative_to_their_file(files: str) -> None:
    target = connection_config(locate(given(), {"KUBECONFIG": files}), given(context="two"))
    assert (target.authority, target.token) == ("PEM", "from-file")


def test_flags_override_the_context(files: str) -> None:
    config = locate(given(), {"KUBECONFIG": files})
    target = connection_config(config,
        given(
            cluster="d", user="on", token="t", insecure_skip_tls_verify=True, as_group=["g"],
            tls_server_name="n", **{"as": "bob"},
        )
    )  # fmt: skip
    assert (target.server, target.token, target.is_insecure) == ("https://d", "t", True)
    assert target.server_name == "n"
    assert target.impersonate == (("Impersonate-User", "bob"), ("Impersonate-Group", "g"))
    assert connection_config(config, given(server="other:8443")).server == "http://other:8443"


def test_home_is_the_default_and_no_file_means_localhost(tmp_path: Path) -> None:
    assert connection_config(locate(given(), {"HOME": str(tmp_path)}), given()).server == (
        "http://localhost:8080"
    )
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(FIRST)
    assert connection_config(locate(given(), {"HOME": str(tmp_path)}), given()).token == "0123"


def test_data_is_decoded(tmp_path: Path) -> None:
    data = base64.b64encode(b"-----BEGIN").decode()
    text = FIRST.replace(
        'server: "https://first:1/"', f"server: x, certificate-authority-data: {data}"
    )
    (tmp_path / "config").write_text(text)
    config = locate(given(kubeconfig=str(tmp_path / "config")), {})
    assert connection_config(config, given()).authority == "-----BEGIN"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param({"context": "nope"}, 'context "nope" does not exist', id="context"),
        pytest.param({"context": "lost"}, 'cluster "gone" does not exist', id="cluster"),
        pytest.param({"user": "nope"}, 'user "nope" does not exist', id="user"),
        pytest.param({"user": "plugin"}, "not supported by the built-in client", id="plugin"),
        pytest.param({"as_uid": "1"}, "without impersonating a user", id="half impersonation"),
    ],
)
def test_missing_entries_are_named(files: str, flags: dict[str, str], message: str) -> None:
    config = locate(given(), {"KUBECONFIG": files})
    with pytest.raises(FAILURES, match=message):
        connection_config(config, given(**flags))


def test_broken_files_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("a: [")
    with pytest.raises(KubectlError, match="error loading config file"):
        locate(given(), {"KUBECONFIG": str(broken)})
    with pytest.raises(KubectlError, match="no such file or directory"):
        locate(given(kubeconfig=str(tmp_path / "nope")), {})
