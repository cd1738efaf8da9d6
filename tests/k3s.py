# SPDX-License-Identifier: Apache-2.0
"""A stand-in for k3s: our own API server over TLS, with a Node.

Build machines have no k3s. The tests use what its users see: a kubeconfig file, an API with
`/healthz`, and a list of nodes. As a program it accepts the arguments of the host driver:

    k3s --version
    k3s server --config FILE

Tests change its responses while it runs: they write a `Behaviour` to a file beside the kubeconfig.
"""

import asyncio
import base64
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml

from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import AnyResponse, Request, Response
from rdd.testing import Server

RELEASE = "v1.33.7+k3s3"


def node(*, is_ready: bool = True) -> dict[str, Any]:
    status = "True" if is_ready else "False"
    return {
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


@dataclass(frozen=True)
class Behaviour:
    """Differences of the program from a healthy k3s."""

    nodes: Literal["ready", "unready", "none"] = "ready"
    health: int = 200
    is_silent: bool = False
    """It accepts requests and never responds."""

    def write(self, kubeconfig: Path) -> None:
        """Apply to the program of a kubeconfig, also to one that starts later."""
        path = self._path(kubeconfig)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(orjson.dumps(asdict(self)))
        new.replace(path)

    @classmethod
    def read(cls, kubeconfig: Path) -> "Behaviour":
        try:
            return cls(**orjson.loads(cls._path(kubeconfig).read_bytes()))
        except FileNotFoundError:
            return cls()

    @staticmethod
    def _path(kubeconfig: Path) -> Path:
        return kubeconfig.with_name("k3s-behaviour.json")


class Cluster:
    """The responses of the stand-in, which tests change."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.nodes: list[dict[str, Any]] = [node()]
        self.health = 200
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.probes = 0
        self.kubeconfig: Path | None = None
        """Set for a program, whose behaviour is in a file beside it."""

    def _apply_behaviour(self, path: Path) -> None:
        behaviour = Behaviour.read(path)
        self.health = behaviour.health
        (self.may_respond.clear if behaviour.is_silent else self.may_respond.set)()
        self.nodes = [node(is_ready=behaviour.nodes == "ready")]
        if behaviour.nodes == "none":
            self.nodes = []

    async def handle(self, request: Request) -> AnyResponse:
        if self.kubeconfig is not None:
            self._apply_behaviour(self.kubeconfig)
        if request.path == "/healthz":
            self.probes += 1
            await self.may_respond.wait()
            return Response(self.health, b"ok", content_type="text/plain")
        if request.path == "/api/v1/nodes" and request.headers.get("Authorization"):
            listed = {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": self.nodes}
            return Response(200, orjson.dumps(listed))
        return await self._server.handle(request)


def _kubeconfig(url: str, authority: str, server: Server) -> str:
    cluster = {"server": url, "certificate-authority-data": authority}
    context = {"cluster": "default", "user": "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"token": server.tokens["admin"]}}],
        "contexts": [{"name": "default", "context": context}],
        "current-context": "default",
    }
    return str(yaml.safe_dump(config))


@asynccontextmanager
async def k3s(kubeconfig: Path, *, port: int = 0, directory: Path) -> AsyncIterator[Cluster]:
    """Serve a cluster and write its kubeconfig."""
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    issued = certificates.ensure_serving(directory)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate_path, issued.key_path)
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with Server(address=address, root_ca=issued.pair.certificate.decode()) as server:
            cluster = Cluster(server)

            class Front:
                """The server, behind the responses of the cluster."""

                def __getattr__(self, name: str) -> Any:
                    return getattr(server, name)

                async def handle(self, request: Request) -> AnyResponse:
                    return await cluster.handle(request)

            http = HttpServer(Front())
            await http.listen(listener, tls)
            authority = base64.b64encode(issued.pair.certificate).decode()
            kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            text = _kubeconfig(f"https://{address}", authority, server)
            kubeconfig.write_text(text)  # noqa: ASYNC240
            try:
                yield cluster
            finally:
                cluster.may_respond.set()
                await http.close(timeout_s=1)


async def serve(config: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with tempfile.TemporaryDirectory(prefix="k3s-") as directory:
        kubeconfig = Path(config["write-kubeconfig"])
        port = int(config["https-listen-port"])
        async with k3s(kubeconfig, port=port, directory=Path(directory)) as cluster:
            cluster.kubeconfig = kubeconfig
            await stop.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(f"k3s version {RELEASE} (0badcafe)")
    else:
        _, _, path = sys.argv[1:]
        asyncio.run(serve(yaml.safe_load(Path(path).read_text())))
