# SPDX-License-Identifier: Apache-2.0
"""The built-in client against a real server, beyond the acceptance tests."""

import io
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import trustme
from tests.unit.cli.conftest import Outcome

from rdd.cli.commands.wait_condition import Goal, _startup, wait
from rdd.cli.framework.errors import CommandError
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import make_flags
from rdd.kubectl.main import _UNSUPPORTED, VERBS, run_client
from rdd.kubectl.session import Session, Streams
from rdd.testing import LiveServer

Ctl = Callable[..., Outcome]

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
            for version in ("v1", "v1beta1")
        ],
    },
}


@pytest.fixture
def ctl(apiserver: LiveServer) -> Ctl:
    """Run the client; keyword arguments are environment variables."""

    def call(*words: str, stdin: str = "", **variables: str) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        environ = {"KUBECONFIG": str(apiserver.kubeconfig), "PATH": os.environ["PATH"], **variables}
        code = run_client(words, environ, Streams(out, err, io.StringIO(stdin)))
        return Outcome(code, out.getvalue(), err.getvalue(), environ)

    return call


@pytest.fixture
def session(apiserver: LiveServer) -> Iterator[Session]:
    flags = make_flags(
        {"kubeconfig": str(apiserver.kubeconfig), "request-timeout": "0", "v": 0}, frozenset()
    )
    made = Session(flags, [], Streams(io.StringIO(), io.StringIO(), io.StringIO()), {})
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(_UNSUPPORTED))
def test_unsupported_commands_are_rejected_by_name(ctl: Ctl, name: str) -> None:
    got = ctl(name, "x")
    assert (got.code, got.out) == (1, "")
    assert got.err.startswith(f'error: command "{name}" is not supported by the built-in client;')


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["apply", "-f", "-", "--prune"], "--prune"),
        (["get", "ns", "-o", "go-template={{.kind}}"], "go-template"),
        (["config", "set-credentials", "x"], "config set-credentials"),
        (["create", "job", "x"], "create job"),
        (["create", "secret", "nope", "x"], "create secret nope"),
        (["rollout", "undo", "x"], "rollout undo"),
        (["apply", "view-last-applied", "x"], "apply view-last-applied"),
        (["cluster-info", "dump"], "cluster-info dump"),
        (["get", "ns", "--kustomize=x"], "--kustomize"),
    ],
)
def test_unsupported_flags_are_rejected_by_name(ctl: Ctl, words: list[str], named: str) -> None:
    got = ctl(*words)
    assert got.code == 1 and named in got.err and "not supported by the built-in client" in got.err


def test_unknown_command_is_rejected(ctl: Ctl) -> None:
    got = ctl("nope")
    assert (got.code, got.err) == (1, 'error: unknown command "nope" for "kubectl"\n')


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_command_has_a_help_text(ctl: Ctl, name: str) -> None:
    got = ctl(name, "--help")
    assert got.code == 0 and f"Usage:\n  kubectl {name}" in got.out


def test_resources_are_found_by_every_name(session: Session, apiserver: LiveServer) -> None:
    apiserver.install(CRD)
    for word in (
        "things",
        "thing",
        "Thing",
        "things.example.com",
        "things.example",
        "things.v1.example.com",
    ):
        resource = session.resource(word)
        assert (resource.plural, resource.version) == ("things", "v1")
    assert session.resource("things.v1beta1.example.com").version == "v1beta1"
    assert session.resource("ev").group == ""
    assert session.resource("ev.events.k8s.io").group == "events.k8s.io"
    assert session.resource("cm").path("n", "a:b") == "/api/v1/namespaces/n/configmaps/a:b"
    with pytest.raises(KubectlError, match='resource type "nope"'):
        session.resource("nope.example.com")


def test_lists_are_fetched_page_by_page(ctl: Ctl) -> None:
    for name in "abcde":
        assert ctl("create", "namespace", f"page-{name}").code == 0
    got = ctl("get", "ns", "--chunk-size=2", "-o", "name")
    assert [line for line in got.out.split() if "page-" in line] == [
        f"namespace/page-{name}" for name in "abcde"
    ]
    assert ctl("get", "ns", "--chunk-size=2").out.count("\n") == got.out.count("\n") + 1


def test_verbosity_logs_requests(ctl: Ctl) -> None:
    got = ctl("get", "ns", "default", "-v=6")
    assert "GET https://127.0.0.1:" in got.err and "/api/v1/namespaces/default 200 OK in" in got.err
    assert "Response Body: " in ctl("get", "ns", "default", "-v", "8").err


def test_unreachable_server(ctl: Ctl, tmp_path: Path) -> None:
    got = ctl("get", "ns", "--server=http://127.0.0.1:1")
    assert (got.code, got.err) == (
        1,
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or"
        " port?\n",
    )
    got = ctl("get", "ns", KUBECONFIG="", HOME=str(tmp_path))
    assert "localhost:8080 was refused" in got.err


def test_certificates_are_verified(ctl: Ctl, apiserver: LiveServer, tmp_path: Path) -> None:
    words = ("get", "ns", "default", "-o", "name", f"--server={apiserver.url}")
    stranger = tmp_path / "ca.pem"
    stranger.write_bytes(trustme.CA().cert_pem.bytes())
    got = ctl(*words, f"--certificate-authority={stranger}")
    assert got.code == 1 and "tls: failed to verify certificate" in got.err
    got = ctl(*words, "--insecure-skip-tls-verify", f"--token={apiserver.token}")
    assert got.out == "namespace/default\n"
    got = ctl(*words, "--token=wrong")
    assert got.err == "error: You must be logged in to the server (Unauthorized)\n"


def test_too_many_requests_is_retried(ctl: Ctl, apiserver: LiveServer) -> None:
    with apiserver.faults.too_many(1, verb="get", resource="namespaces") as fault:
        assert ctl("get", "ns", "default", "-o", "name").out == "namespace/default\n"
        assert fault.hits == 1


def test_apply_retries_after_conflict(ctl: Ctl, apiserver: LiveServer) -> None:
    manifest = (
        '{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"x":"{}"}}}}'
    )
    ctl("apply", "-f", "-", stdin=manifest.format(1))
    with apiserver.faults.conflict(1, verb="patch", resource="configmaps") as fault:
        got = ctl("apply", "-f", "-", stdin=manifest.format(2))
        assert (got.out, got.err, fault.hits) == ("configmap/a configured\n", "", 1)


def test_wait_survives_ended_watches(ctl: Ctl, apiserver: LiveServer) -> None:
    ctl("create", "configmap", "a")
    apiserver.faults.drop_watch(1, resource="configmaps")
    apiserver.faults.gone(1, verb="watch", resource="configmaps")
    words = ("wait", "cm/a", "--for=jsonpath={.data.x}=1", "--timeout=20s")
    later = threading.Timer(0.2, ctl, ["patch", "cm", "a", "-p", '{"data":{"x":"1"}}'])
    later.start()
    got = ctl(*words)
    later.join()
    assert (got.code, got.out, got.err) == (0, "configmap/a condition met\n", "")


def test_client_side_dry_run_rejects_an_invalid_patch(ctl: Ctl) -> None:
    assert ctl("create", "configmap", "a").code == 0
    patch = '[{"op": "remove", "path": "/nope"}]'
    got = ctl("patch", "configmap", "a", "--type=json", "-p", patch, "--dry-run=client")
    assert got.code == 1 and got.err.startswith("error: unable to apply the patch: ")


def test_edit_sends_a_patch(ctl: Ctl, tmp_path: Path) -> None:
    ctl("create", "configmap", "a", "--from-literal=x=1", "-n", "default")
    got = ctl("edit", "cm", "a", EDITOR=editor(tmp_path, 'sed -i s/\\"1\\"/\\"2\\"/'))
    assert (got.code, got.out) == (0, "configmap/a edited\n")
    assert ctl("get", "cm", "a", "-o", "jsonpath={.data.x}").out == "2"
    got = ctl("edit", "cm", "a", KUBE_EDITOR=editor(tmp_path, "true"))
    assert (got.code, got.out, got.err) == (0, "", "Edit cancelled, no changes made.\n")
    got = ctl("edit", "cm", "a", EDITOR=editor(tmp_path, "false"))
    assert got.code == 1 and "problem with the editor" in got.err


def test_edit_reopens_with_the_error(ctl: Ctl, tmp_path: Path) -> None:
    ctl("create", "configmap", "a")
    script = "grep -q immutable2 $1 && exit 0; sed -i 's/^kind:/immutable2: true\\nkind:/'"
    got = ctl("edit", "cm", "a", EDITOR=editor(tmp_path, script))
    assert got.code == 1
    assert 'unknown field "immutable2"' in got.err and "no valid changes were saved" in got.err


def editor(directory: Path, command: str) -> str:
    path = directory / "editor"
    path.write_text(f'#!/bin/sh\n{command} "$1"\n')
    path.chmod(0o755)
    return str(path)


def test_kubeconfig_is_replaced_atomically(ctl: Ctl, apiserver: LiveServer, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(apiserver.kubeconfig.read_bytes())
    here = f"--kubeconfig={path}"
    current = ctl("config", "current-context", here).out.strip()
    assert ctl("config", "set-context", "new", "--namespace=on", here).out == (
        'Context "new" created.\n'
    )
    assert ctl("config", "use-context", "new", here).out == 'Switched to context "new".\n'
    assert ctl("config", "set-context", "--current", "--cluster=x", here).out == (
        'Context "new" modified.\n'
    )
    assert ctl("config", "view", "--minify", "-o", "jsonpath={.contexts[0].context}", here).out == (
        '{"cluster":"x","namespace":"on","user":""}'
    )
    assert ctl("config", "rename-context", "new", "old", here).code == 0
    assert ctl("config", "current-context", here).out == "old\n"
    assert ctl("config", "delete-context", "old", here).out == (
        f"deleted context old from {path}\n"
    )
    ctl("config", "use-context", current, here)
    assert ctl("get", "ns", "default", "-o", "name", here).out == "namespace/default\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_proxy_serves_local_requests_only(apiserver: LiveServer) -> None:
    reader, writer = os.pipe()
    out = os.fdopen(writer, "w")
    environ = {"KUBECONFIG": str(apiserver.kubeconfig)}
    streams = Streams(out, io.StringIO(), io.StringIO())
    thread = threading.Thread(
        target=run_client, args=(["proxy", "--port=0"], environ, streams), daemon=True
    )
    thread.start()
    with os.fdopen(reader) as lines:
        greeting = lines.readline()
    port = int(greeting.removeprefix("Starting to serve on 127.0.0.1:"))

    def get(path: str, host: str = "localhost", method: str = "GET") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(method, path, headers={"Host": host})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    assert get("/api/v1/namespaces/default")[0] == 200
    status, body = get("/api/v1/namespaces?watch=true&timeoutSeconds=1")
    assert status == 200 and b'"ADDED"' in body
    assert get("/api/v1/namespaces/nope")[0] == 404
    assert get("/api/v1/namespaces/default", host="evil.example")[0] == 403
    assert get("/api/v1/namespaces/x/pods/y/exec")[0] == 403


def test_wait_condition_includes_the_second_of_startup(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {"metadata": {"creationTimestamp": "2026-11-15T22:30:06Z"}}
    monkeypatch.setattr(session.api, "get", lambda path: started)
    goal = Goal("thing", "a", "Ready", since=_startup(session))
    seconds = {"05": False, "06": True, "07": True}
    for second, is_met in seconds.items():
        condition = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": f"2026-11-15T22:30:{second}Z",
        }
        assert goal.is_met({"status": {"conditions": [condition]}}) is is_met


def test_wait_condition_waits_for_missing_objects(session: Session, apiserver: LiveServer) -> None:
    apiserver.install(CRD)
    resource = session.resource("things")
    goal = Goal("thing", "a", "Ready")
    with pytest.raises(CommandError, match="context deadline exceeded") as caught:
        wait(session, resource, goal, time.monotonic() + 0.2)
    assert caught.value.exit_code == 4
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    later = threading.Timer(0.1, apiserver.create, [{**thing, "status": ready("False")}])
    later.start()
    with pytest.raises(CommandError, match="context deadline exceeded"):
        wait(session, resource, goal, time.monotonic() + 0.5)
    later.join()
    wait(session, resource, goal._replace(status="False"), None)
    path = "/apis/example.com/v1/things/a"
    deleting = threading.Timer(0.1, apiserver.request, ["DELETE", path])
    deleting.start()
    with pytest.raises(CommandError, match="thing/a was deleted while waiting"):
        wait(session, resource, goal, time.monotonic() + 20)
    deleting.join()


def ready(status: str) -> dict[str, object]:
    return {"conditions": [{"type": "Ready", "status": status}]}
