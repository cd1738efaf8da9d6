# SPDX-License-Identifier: Apache-2.0
"""The API server on a port, in its own thread.

Clients that need a URL (kubectl, the official client, an operator in another
process) connect over HTTPS on the loopback interface. The event loop of the
server runs in a thread, so synchronous tests can block on their client. The
server ends with the process of the test run.
"""

import asyncio
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from rdd.api.types import Object
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.testing.faults import Faults
from rdd.testing.manifests import Source
from rdd.testing.server import Options, Server
from rdd.testing.wire import Reply

T = TypeVar("T")

_START_S = 30.0
_CLOSE_S = 1.0


class LiveServer:
    """A real API server for tests, on a port of the loopback interface.

    Use it as a context manager, or call `start` and `close`. All methods can be
    called from any thread except the server's own.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        crds: Sequence[Source] = (),
        directory: Path | None = None,
    ) -> None:
        self._options = options
        self._crds = crds
        self._directory = directory
        self._own_directory = directory is None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._server: Server | None = None
        self._http: HttpServer | None = None
        self.port = 0

    # -- life cycle

    def start(self) -> None:
        """Start; return when the server is ready, raise the error if it fails."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="rdd-testing-"))
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready.set,), name="rdd-testing", daemon=True
        )
        self._thread.start()
        if not ready.wait(_START_S):
            raise TimeoutError(f"the server did not start within {_START_S:.0f} s")
        if self._failure is not None:
            self.close()
            raise self._failure
        for user in self.server.tokens:
            self._write_kubeconfig(user)

    def close(self) -> None:
        """Stop, close all connections and remove the files."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._own_directory and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, ready: Callable[[], None]) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._serve(ready))
        except BaseException as e:
            self._failure = e
            ready()

    async def _serve(self, ready: Callable[[], None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        issued = certificates.ensure_serving(self.directory)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(issued.certificate_path, issued.key_path)
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            self.port = listener.getsockname()[1]
            async with Server(
                self._options,
                crds=self._crds,
                address=f"127.0.0.1:{self.port}",
                root_ca=issued.pair.certificate.decode(),
            ) as server:
                self._server = server
                http = self._http = HttpServer(server)
                await http.listen(listener, tls)
                ready()
                await self._stop.wait()
                await http.close(timeout_s=_CLOSE_S)

    # -- access of clients

    @property
    def server(self) -> Server:
        """The server in its thread; call its coroutines with `run`."""
        if self._server is None:
            raise RuntimeError("the server is not running: call start() or use a `with` statement")
        return self._server

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._http.connections if self._http is not None else 0

    @property
    def directory(self) -> Path:
        """The directory of certificates and kubeconfigs."""
        assert self._directory is not None
        return self._directory

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The CA certificate for clients."""
        return self.directory / f"{certificates.SERVING}.crt"

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.server.tokens["admin"]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of a user of `Options.users`; raise KeyError for another."""
        return self.directory / f"{self.server.tokens[user]}.kubeconfig"

    def _write_kubeconfig(self, user: str) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "rdd",
                    "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)},
                }
            ],
            "users": [{"name": user, "user": {"token": self.server.tokens[user]}}],
            "contexts": [
                {
                    "name": "rdd",
                    "context": {"cluster": "rdd", "user": user, "namespace": "default"},
                }
            ],
            "current-context": "rdd",
        }
        self.kubeconfig_of(user).write_text(yaml.safe_dump(config))

    # -- methods of the server, callable from other threads

    @property
    def faults(self) -> Faults:
        """Fault injection; faults can be added from any thread."""
        return self.server.faults

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the server's thread.

        `asyncio.wrap_future` makes the result awaitable.
        """
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's thread and return its result."""
        return self.submit(coroutine).result(_START_S)

    def reset(self) -> None:
        """Restore the initial state, end all watches and remove all faults."""
        self.run(self.server.reset())

    def install(self, *crds: Source) -> None:
        """Create CRDs and wait until all of them are served."""
        self.run(self.server.install(*crds))

    def create(self, obj: Object) -> Object:
        """Create an object by its kind."""
        return self.run(self.server.create(obj))

    def until(
        self, path: str, condition: Callable[[Object | None], bool], *, timeout_s: float = 20.0
    ) -> Object | None:
        """Wait until a condition is true for the object of a path, as `Server.until`."""
        return self.run(self.server.until(path, condition, timeout_s=timeout_s))

    def advance(self, seconds: float) -> None:
        """Move the clock forward and remove expired objects."""
        self.run(self.server.advance(seconds))

    def request(self, method: str, path: str, body: Object | None = None, **kwargs: Any) -> Reply:
        """Make a request without a socket, as `Server.request`."""
        return self.run(self.server.request(method, path, body, **kwargs))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not available on every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
