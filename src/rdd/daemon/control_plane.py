# SPDX-License-Identifier: Apache-2.0
"""The control plane of one instance: store, API server, built-in controllers, kubeconfig.

Start and stop have a fixed order, because each step is what the next one, or a
client that sees its result, relies on:

    store (its lock makes this the only daemon) → certificates → API server
    → controllers → socket → kubeconfig → ready
    stop: not ready → socket drains → controllers → API server → store

The kubeconfig is written after the socket answers and removed when it no
longer does, so whoever finds the file can connect.
"""

import asyncio
import base64
import contextlib
import importlib
import os
import signal
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from rdd.apiserver import certificates
from rdd.apiserver.assemble import Server, ServerOptions, open_server
from rdd.apiserver.http import HttpServer
from rdd.apiserver.request import User
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.instance import Instance
from rdd.store.sqlite import SqliteStore

ADMIN = User("system-admin", ("system:masters",))
READER = User("user")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What can be chosen when the control plane is started."""

    secure_port: int = 6443
    """Port on 127.0.0.1; another free one is taken if it is in use. 0: any."""
    builtin_controllers: str = "*"
    """Which of the built-in controllers run."""
    version: str = ""
    """Version of rdd, shown behind the Kubernetes version."""


@dataclass(frozen=True, slots=True)
class Running:
    """A control plane that answers."""

    server: Server
    address: str
    tokens: dict[str, str]
    """Context name → bearer token."""


def bind(port: int) -> socket.socket:
    """A listening socket on loopback: the port asked for, or any if that one is taken."""
    for candidate in (port, 0):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", candidate))
            sock.listen(512)
            return sock
        except OSError as error:
            sock.close()
            if candidate == 0:
                raise HostError.from_os("listen on 127.0.0.1", error) from error
    raise AssertionError("unreachable")


@contextlib.asynccontextmanager
async def control_plane(instance: Instance, options: ServeOptions) -> AsyncIterator[Running]:
    """Run the control plane of an instance while the block runs."""
    make_private_dir(instance.dir)
    make_private_dir(instance.database.parent)
    make_private_dir(instance.tls_dir)
    async with contextlib.AsyncExitStack() as stack:
        store = await SqliteStore.open(instance.database)
        stack.push_async_callback(store.close)
        # What is left of a daemon that crashed would lead clients to a port nobody serves.
        instance.config.unlink(missing_ok=True)
        serving = certificates.ensure_serving(instance.tls_dir)
        sock = bind(options.secure_port)
        stack.callback(sock.close)
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        tokens = {"root": str(uuid.uuid4()), "user": str(uuid.uuid4())}
        server = await open_server(
            store,
            ServerOptions(
                tokens={tokens["root"]: ADMIN, tokens["user"]: READER},
                signing_key=certificates.ensure_signing_key(instance.tls_dir),
                address=address,
                version_suffix=f"rdd-{options.version}" if options.version else "",
            ),
        )
        stack.push_async_callback(server.close)
        authority = serving.certificate_path.read_text()
        await _start_controllers(stack, server, options, authority)
        http = HttpServer(server.api)
        await http.listen(sock, _tls(serving.certificate_path, serving.key_path))
        stack.push_async_callback(http.close)
        write_kubeconfig(instance.config, address, authority, tokens)
        stack.callback(instance.config.unlink, missing_ok=True)
        preloading = asyncio.create_task(asyncio.to_thread(_preload), name="rdd-preload")
        stack.push_async_callback(asyncio.wait, [preloading])
        yield Running(server, address, tokens)


async def _start_controllers(
    stack: contextlib.AsyncExitStack, server: Server, options: ServeOptions, authority: str
) -> None:
    if not options.builtin_controllers:
        return


def _preload() -> None:
    """Load what only the first CRD needs, so that it does not wait 40 ms for imports."""
    for module in ("rdd.schema.rule_checks", "rdd.schema.rules", "rdd.api.apply"):
        importlib.import_module(module)


def _tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def write_kubeconfig(path: Path, address: str, authority: str, tokens: dict[str, str]) -> None:
    """Write the kubeconfig of a running control plane: context `root` (admin) and `user`."""
    users = {"root": ADMIN.name, "user": READER.name}
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "root",
                "cluster": {
                    "server": f"https://{address}",
                    "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                },
            }
        ],
        "users": [
            {"name": users[context], "user": {"token": token}} for context, token in tokens.items()
        ],
        "contexts": [
            {"name": context, "context": {"cluster": "root", "user": users[context]}}
            for context in tokens
        ],
        "current-context": "root",
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        yaml.safe_dump(value, out, sort_keys=False)
    temporary.replace(path)


async def run_until_signalled(
    instance: Instance, options: ServeOptions, *, on_ready: Callable[[Running], None]
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    async with control_plane(instance, options) as running:
        on_ready(running)
        await stop.wait()
