# SPDX-License-Identifier: Apache-2.0
"""Replacement of the user's context, for every kind of response and for none."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from rdd.host.contexts import context_probe, docker_contexts, docker_health, kube_health
from rdd.host.contexts.context_probe import Verdict

NAME = "rancher-desktop-2"


@asynccontextmanager
async def serving(
    line: bytes, *, path: Path | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve one line to every request; yields the port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(line)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    if path is not None:
        server = await asyncio.start_unix_server(handle, path)
    else:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield 0 if path is not None else server.sockets[0].getsockname()[1]


OK = b"HTTP/1.1 200 OK\r\n\r\n"


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


# -- Docker


class Docker:
    """A configuration directory of Docker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}
        self.default = f"unix://{directory}/none.sock"

    def use(self, host: str, name: str = "theirs", **endpoint: Any) -> None:
        path = docker_contexts.metadata_path(self.directory, name)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"Endpoints": {"docker": {"Host": host, **endpoint}}}))
        self.choose(name)

    def choose(self, name: str) -> None:
        (self.directory / "config.json").write_text(json.dumps({"currentContext": name}))

    async def verdict(self) -> Verdict:
        return await docker_health.should_switch(
            self.directory,
            NAME,
            environment=self.environment,
            default_endpoint=self.default,
        )


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    return Docker(tmp_path)


def _broken_tls(docker: Docker) -> None:
    docker.use("tcp://127.0.0.1:1")
    tls = docker_contexts.tls_directory(docker.directory, "theirs")
    tls.mkdir(parents=True)
    (tls / "ca.pem").write_text("rubbish")


def _unreadable(docker: Docker) -> None:
    docker.use("unix:///x")
    docker_contexts.metadata_path(docker.directory, "theirs").write_text("{")


@pytest.mark.parametrize(
    ("prepare", "switches", "reason"),
    [
        pytest.param(lambda d: d.environment.update(DOCKER_HOST="x"), False, "DOCKER_HOST is set",
                     id="DOCKER_HOST"),
        pytest.param(lambda d: d.environment.update(DOCKER_CONTEXT="x"), False,
                     "DOCKER_CONTEXT is set", id="DOCKER_CONTEXT"),
        pytest.param(lambda d: (d.directory / "config.json").write_text("{"), False,
                     "is not JSON", id="unreadable configuration"),
        pytest.param(lambda d: d.choose(NAME), False, "it is the current context", id="ours"),
        pytest.param(lambda d: None, True, "does not respond", id="default is unhealthy"),
        pytest.param(lambda d: d.choose("default"), True, "does not respond", id="default by name"),
        pytest.param(lambda d: d.choose("gone"), True, "does not exist", id="missing"),
        pytest.param(lambda d: d.use(f"tcp://127.0.0.1:{closed_port()}"), True, "does not respond",
                     id="refused"),
        pytest.param(lambda d: d.use("unix:///nowhere/d.sock"), True, "does not respond",
                     id="no socket"),
        pytest.param(lambda d: d.use("ssh://box"), False, "ssh is not supported",
                     id="ssh"),
        pytest.param(lambda d: d.use("npipe:////./pipe/x"), False, "cannot be probed", id="npipe"),
        pytest.param(lambda d: d.use("rubbish"), False, "cannot be probed", id="no URL"),
        pytest.param(_unreadable, False, "is unreadable", id="unreadable metadata"),
        pytest.param(_broken_tls, False, "cannot be probed", id="unreadable authority"),
    ],
)  # fmt: skip
async def test_docker_context_is_replaced_only_if_missing_or_unhealthy(
    docker: Docker, prepare: Callable[[Docker], Any], switches: bool, reason: str
) -> None:
    prepare(docker)
    verdict = await docker.verdict()
    assert (verdict.should_switch, reason in verdict.reason) == (switches, True), verdict


@pytest.mark.parametrize(
    ("line", "switches"),
    [
        pytest.param(OK, False, id="200"),
        pytest.param(b"HTTP/1.1 403 Forbidden\r\n\r\n", False, id="403"),
        pytest.param(b"HTTP/1.1 500 Internal\r\n\r\n", True, id="500"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", True, id="no HTTP"),
        pytest.param(b"", True, id="nothing"),
    ],
)
async def test_docker_engine_response(docker: Docker, line: bytes, switches: bool) -> None:
    path = docker.directory / "d.sock"
    async with serving(line, path=path):
        docker.default = f"unix://{path}"
        assert (await docker.verdict()).should_switch is switches
    async with serving(line) as port:
        docker.use(f"tcp://127.0.0.1:{port}")
        verdict = await docker.verdict()
        assert (verdict.should_switch, verdict.current) == (switches, "theirs")


async def test_failed_tls_handshake_keeps_a_docker_context(docker: Docker) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(OK, tls=context) as port:
        docker.use(f"tcp://127.0.0.1:{port}")
        tls = docker_contexts.tls_directory(docker.directory, "theirs")
        tls.mkdir(parents=True)
        authority.cert_pem.write_to_path(str(tls / "ca.pem"))
        assert not (await docker.verdict()).should_switch
        trustme.CA().cert_pem.write_to_path(str(tls / "ca.pem"))
        verdict = await docker.verdict()
        assert (verdict.should_switch, "rejects" in verdict.reason) == (False, True)


async def test_silent_docker_engine_is_unhealthy(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_probe, "TIMEOUT_S", 0.05)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        docker.use(f"tcp://127.0.0.1:{mute.getsockname()[1]}")
        verdict = await docker.verdict()
        assert (verdict.should_switch, "timeout" in verdict.reason) == (True, True)


# -- Kubernetes


def kubeconfig(path: Path, **cluster: Any) -> Path:
    found = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "theirs", "context": {"cluster": "c"}}],
        "current-context": "theirs",
    }
    path.write_text(json.dumps(found))
    return path


async def verdict_on(path: Path, **environment: str) -> Verdict:
    return await kube_health.should_switch([path], NAME, environment=environment)


@pytest.mark.parametrize(
    ("text", "switches", "reason"),
    [
        pytest.param("", True, "no context is in use", id="empty"),
        pytest.param("{", False, "is not YAML", id="no YAML"),
        pytest.param("current-context: ''", True, "no context is in use", id="none chosen"),
        pytest.param(f"current-context: {NAME}", False, "it is the current context", id="ours"),
        pytest.param("current-context: gone", True, "does not exist", id="missing"),
        pytest.param("current-context: default", True, "does not exist", id="default"),
        pytest.param("current-context: x\ncontexts: [{name: x, context: {cluster: y}}]", True,
                     "its cluster does not exist", id="no cluster"),
        pytest.param("current-context: x\ncontexts: [{name: x}]", True, "does not exist",
                     id="half a context"),
    ],
)  # fmt: skip
async def test_kube_context(tmp_path: Path, text: str, switches: bool, reason: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    verdict = await verdict_on(path)
    assert (verdict.should_switch, reason in verdict.reason) == (switches, True), verdict


@pytest.mark.parametrize(
    ("line", "switches"),
    [
        pytest.param(OK, False, id="200"),
        pytest.param(b"HTTP/1.1 401 Unauthorized\r\n\r\n", False, id="401"),
        pytest.param(b"HTTP/1.1 403 Forbidden\r\n\r\n", False, id="403"),
        pytest.param(b"HTTP/1.1 503 Unavailable\r\n\r\n", True, id="503"),
        pytest.param(b"junk\r\n", True, id="no HTTP"),
    ],
)
async def test_cluster_response(tmp_path: Path, line: bytes, switches: bool) -> None:
    async with serving(line) as port:
        path = kubeconfig(tmp_path / "c", server=f"http://127.0.0.1:{port}")
        assert (await verdict_on(path)).should_switch is switches


@pytest.mark.parametrize(
    ("cluster", "switches", "reason"),
    [
        pytest.param({"server": "https://127.0.0.1:1"}, True, "does not respond", id="refused"),
        pytest.param({"server": "ftp://x"}, False, "no usable server URL", id="another scheme"),
        pytest.param({}, False, "no usable server URL", id="no server"),
        pytest.param({"server": "https://x", "proxy-url": "http://p"}, False, "behind a proxy",
                     id="proxy-url"),
        pytest.param({"server": "https://127.0.0.1:1", "certificate-authority-data": "%%"}, False,
                     "cannot be probed", id="authority is no base64"),
        pytest.param({"server": "https://127.0.0.1:1", "certificate-authority-data": "eHg="}, False,
                     "cannot be probed", id="authority is no certificate"),
        pytest.param({"server": "https://127.0.0.1:1", "certificate-authority": "gone.pem"}, False,
                     "cannot be probed", id="authority is missing"),
    ],
)  # fmt: skip
async def test_cluster_that_cannot_be_probed_is_kept(
    tmp_path: Path, cluster: dict[str, Any], switches: bool, reason: str
) -> None:
    verdict = await verdict_on(kubeconfig(tmp_path / "c", **cluster))
    assert (verdict.should_switch, reason in verdict.reason) == (switches, True), verdict


async def test_failed_tls_handshake_keeps_a_kube_context(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(OK, tls=context) as port:
        server = f"https://127.0.0.1:{port}"
        ours = base64.b64encode(authority.cert_pem.bytes()).decode()
        path = kubeconfig(tmp_path / "a", server=server, **{"certificate-authority-data": ours})
        assert not (await verdict_on(path)).should_switch
        path = kubeconfig(tmp_path / "b", server=server)
        assert "rejects" in (await verdict_on(path)).reason
        path = kubeconfig(tmp_path / "c", server=server, **{"insecure-skip-tls-verify": True})
        assert "responds" in (await verdict_on(path)).reason


async def test_cluster_behind_a_proxy_is_kept(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "c", server="https://cluster.example.invalid")
    verdict = await verdict_on(path, HTTPS_PROXY="http://proxy:3128")
    assert (verdict.should_switch, "behind a proxy" in verdict.reason) == (False, True)
    local = kubeconfig(tmp_path / "l", server=f"https://127.0.0.1:{closed_port()}")
    assert (await verdict_on(local, HTTPS_PROXY="http://proxy:3128")).should_switch
