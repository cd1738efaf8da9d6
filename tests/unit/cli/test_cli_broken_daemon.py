# SPDX-License-Identifier: Apache-2.0
"""Commands against a daemon that has half started, half stopped, or responds with nonsense.

Every command ends with one line and an exit code. A traceback never reaches the user; the
border of the command line that reports an unexpected exception is not needed for these.
"""

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.programs import start_program

from rdd.cli.commands import version
from rdd.cli.framework import entry
from rdd.cli.framework.types import Call
from rdd.client import kubeconfig
from rdd.daemon.service import arguments, record
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.processes import identity
from rdd.instance import Instance


class Server:
    """A socket that sends the same bytes to each client and closes the connection."""

    def __init__(self, response: bytes) -> None:
        self._response = response
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(self._response)
                except OSError:
                    pass

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def config(url: str) -> str:
    return kubeconfig.render(url, authority="", admin_token="t", reader_token="u")


KUBECONFIGS = {
    "missing": None,
    "empty": "",
    "cut off": config("http://127.0.0.1:1")[:60],
    "half": config("http://127.0.0.1:1").partition("users:")[0],
    "binary": "\0\1\2",
    "list": "[]",
    "text": "hello",
    "lists of text": "clusters: [a]\nusers: [b]\ncontexts: [c]\ncurrent-context: c",
    "members of other types": "clusters: 1\nusers: {}\ncontexts: x\ncurrent-context: [1]",
    "no URL": config("ftp://127.0.0.1"),
    "bad port": config("http://127.0.0.1:x"),
    "refused": config(f"http://127.0.0.1:{closed_port()}"),
}
RESPONSES = {
    "closed": b"",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "no JSON": http(b"<html>"),
    "half JSON": http(b'{"items": ['),
    "null": http(b"null"),
    "list": http(b"[]"),
    "text": http(b'"x"'),
    "not UTF-8": http(b"\xff\xfe"),
    "500": http(b"oops", "500 Internal Server Error"),
    "500 list": http(b"[]", "500 Internal Server Error"),
    "401": http(b"", "401 Unauthorized"),
}
# Commands that do not start the daemon, so that they meet one in any state.
OBSERVING = (
    ("status",),
    ("status", "--output=json"),
    ("doctor",),
    ("service", "status"),
    ("service", "status", "--output=json"),
    ("service", "config", "--start=false"),
    ("service", "paths"),
    ("support-bundle", "bundle.tar.gz"),
    ("set", "--help"),
    ("__complete", "shell", ""),
    ("__complete", "limavm", "stop", ""),
)
CONNECTING = (
    ("start",),
    ("stop",),
    ("restart",),
    ("set", "running=true"),
    ("run", "true"),
    ("ps",),
    ("images",),
    ("volumes",),
    ("logs", "x"),
    ("exec", "x", "true"),
    ("ctl", "get", "pods"),
    ("kubectl", "get", "pods"),
    ("limavm", "list"),
    ("limavm", "start", "x"),
    ("limavm", "stop", "x"),
    ("limavm", "shell", "x"),
    ("limavm", "delete", "x"),
    ("limavm", "log", "x"),
    ("shell",),
)


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    def replaced(*arguments: object) -> None:
        raise AssertionError(f"the process would have become {arguments}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execvpe", replaced)
    found = Instance("x", tmp_path)
    arguments.create(found)
    return found


@contextmanager
def daemon(instance: Instance, state: State) -> Iterator[None]:
    """A process that is recorded as the daemon."""
    with start_program(["sleep", "1000"]) as process:
        who = identity(process.pid)
        assert who is not None
        record.write(instance, DaemonRecord(who, version=version.version(), state=state))
        yield


def rdd(instance: Instance, *words: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it wrote to stderr."""
    environ = {"HOME": str(instance.home), "PATH": "/nowhere", "RDD_LOG_LEVEL": "warn"}
    out, err = io.StringIO(), io.StringIO()
    code = entry.run(["rdd", "--instance", "x", *words], environ, stdout=out, stderr=err)
    return code, err.getvalue()


def check(code: int, errors: str) -> None:
    assert code in (0, 1), (code, errors)
    assert "Traceback" not in errors
    assert "unexpected error" not in errors
    assert len(errors.splitlines()) <= 3, errors


@pytest.mark.parametrize("text", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_kubeconfig_that_is_missing_or_damaged(instance: Instance, text: str | None) -> None:
    if text is not None:
        instance.config.write_text(text)
    for state in State:
        with daemon(instance, state):
            for words in OBSERVING:
                check(*rdd(instance, *words))
    with daemon(instance, State.READY):
        for words in CONNECTING:
            check(*rdd(instance, *words))


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
def test_server_that_responds_with_nonsense(instance: Instance, response: bytes) -> None:
    with Server(response) as server, daemon(instance, State.READY):
        instance.config.write_text(config(server.url))
        for words in (*OBSERVING, *CONNECTING):
            check(*rdd(instance, *words))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"pid": "x"}', '{"pid": 1, "state": "elsewhere"}', "\0"]
)
def test_damaged_record_counts_as_no_daemon(instance: Instance, text: str) -> None:
    instance.record_file.write_text(text)
    instance.pid_file.write_text("rubbish")
    for words in OBSERVING:
        check(*rdd(instance, *words))
    assert "is already stopped" in rdd(instance, "--log-level=info", "service", "stop")[1]


@pytest.mark.parametrize(
    ("state", "word"),
    [(State.STARTING, "starting"), (State.SERVING, "serving"), (State.STOPPING, "stopping")],
)
def test_status_names_the_state_of_a_daemon_without_a_kubeconfig(
    instance: Instance, state: State, word: str
) -> None:
    with daemon(instance, state):
        out = io.StringIO()
        environ = {"HOME": str(instance.home)}
        words = ["rdd", "--instance", "x", "status", "--output=json"]
        assert entry.run(words, environ, stdout=out, stderr=io.StringIO()) == 0
    found = json.loads(out.getvalue())
    assert found["parts"][0]["state"] == word
    assert found["problems"] == []


# -- the last resort


def broken(call: Call) -> int:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("words", "variables", "shows"),
    [
        (("version",), {}, False),
        (("version", "--log-level=info"), {}, False),
        (("version", "--log-level=debug"), {}, True),
        (("version", "--log-level", "trace"), {}, True),
        (("version",), {"RDD_LOG_LEVEL": "debug"}, True),
    ],
)
def test_unexpected_exception_is_one_line_unless_debugging(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variables: dict[str, str], shows: bool
) -> None:
    monkeypatch.setattr(version, "run", broken)
    err = io.StringIO()
    code = entry.run(["rdd", *words], {"HOME": "/", **variables}, stdout=io.StringIO(), stderr=err)
    assert code == 1
    last = err.getvalue().splitlines()[-1]
    assert "unexpected error: ZeroDivisionError: division by zero" in last
    assert ("Traceback" in err.getvalue()) is shows
    assert ("--log-level=debug shows where" in last) is not shows
