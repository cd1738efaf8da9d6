# SPDX-License-Identifier: Apache-2.0
"""`proxy`: serve the API on a local port, authenticated as the user who runs it.

Every client that reaches the port acts as that user. The proxy therefore listens on
the loopback interface by default, and only accepts requests whose Host header is a
local name: this stops DNS rebinding, where a web page resolves its own host name
to 127.0.0.1.
"""

import http.client
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rdd.base.pflag import Flag
from rdd.client.blocking import Connection
from rdd.client.errors import ClientError
from rdd.kubectl.errors import KubectlError
from rdd.kubectl.flags import Verb
from rdd.kubectl.session import Session

_CHUNK = 64 * 1024
# Hop-by-hop headers (RFC 9110, 7.6.1), and those that the proxy sets itself.
_NOT_FORWARDED = frozenset((
    "accept-encoding", "authorization", "connection", "content-length", "host", "keep-alive",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip

VERB = Verb(
    "proxy",
    "[--port=PORT]",
    "Serve the API on a local port without authentication",
    flags=(
        Flag(
            "accept-hosts",
            "accepted hosts, as regular expressions",
            default=r"^localhost$,^127\.0\.0\.1$,^\[::1\]$",
        ),
        Flag("accept-paths", "accepted paths, as regular expressions", default="^.*"),
        Flag("address", "address to listen on", default="127.0.0.1"),
        Flag("api-prefix", "prefix under which the API is served", default="/"),
        Flag("port", "port to listen on; 0 means any free port", "int", default="8001", short="p"),
        Flag("reject-methods", "rejected methods, as regular expressions", default="^$"),
        Flag(
            "reject-paths",
            "rejected paths, as regular expressions",
            default="^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach",
        ),
    ),
    unsupported=(
        "append-server-path", "disable-filter", "keepalive", "unix-socket", "www", "www-prefix",
    ),
)  # fmt: skip


class _Rules:
    def __init__(self, session: Session) -> None:
        flags = session.flags
        self._accept_hosts = _patterns(flags.text("accept-hosts"))
        self._accept_paths = _patterns(flags.text("accept-paths"))
        self._reject_paths = _patterns(flags.text("reject-paths"))
        self._reject_methods = _patterns(flags.text("reject-methods"))

    def allow(self, method: str, host: str, path: str) -> bool:
        """Return whether a request may be forwarded."""
        name = re.sub(r":\d+$", "", host)
        if any(p.search(path) for p in self._reject_paths):
            return False
        if any(p.search(method) for p in self._reject_methods):
            return False
        return any(p.search(path) for p in self._accept_paths) and any(
            p.search(name) for p in self._accept_hosts
        )


def _patterns(text: str) -> list[re.Pattern[str]]:
    try:
        return [re.compile(part) for part in text.split(",") if part]
    except re.error as error:
        raise KubectlError(f"error creating request filter: {error}") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    session: Session
    rules: _Rules
    prefix: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: stderr is for failures."""

    def _forward(self) -> None:
        host = self.headers.get("Host", "")
        path = self.path.partition("?")[0]
        if not self.server.rules.allow(self.command, host, path):
            self._reject(403, "Forbidden")
            return
        if not self.path.startswith(self.server.prefix):
            self._reject(404, "404 page not found")
            return
        below = "/" + self.path.removeprefix(self.server.prefix).lstrip("/")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        headers = [
            (name, value)
            for name, value in self.headers.items()
            if name.lower() not in _NOT_FORWARDED
        ]
        try:
            with Connection(self.server.session.config).forward(
                self.command, below, headers, body
            ) as response:
                self._copy(response)
        except ClientError as error:
            self._reject(502, str(error))
        except (ConnectionError, http.client.HTTPException):
            self.close_connection = True  # one side has disconnected

    def _copy(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        length = response.headers.get("Content-Length")
        for name, value in response.headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", length)
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # read1 does not wait for more data, which would delay events of a watch.
        while data := response.read1(_CHUNK):
            if length is None:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            else:
                self.wfile.write(data)
            self.wfile.flush()
        if length is None:
            self.wfile.write(b"0\r\n\r\n")

    def _reject(self, code: int, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _forward


def run(session: Session) -> None:
    flags = session.flags
    if session.args:
        raise KubectlError(f"unexpected arguments: [{' '.join(session.args)}]")
    address, port = flags.text("address"), flags.integer("port")
    try:
        server = _Server((address, port), _Handler)
    except OSError as error:
        raise KubectlError(
            f"listen tcp {address}:{port}: bind: {(error.strerror or str(error)).lower()}"
        ) from None
    server.session = session
    server.rules = _Rules(session)
    server.prefix = flags.text("api-prefix").rstrip("/") + "/"
    _ = session.api  # report problems of the kubeconfig before the port
    session.print(f"Starting to serve on {address}:{server.server_address[1]}")
    session.out.flush()
    try:
        server.serve_forever()
    finally:
        server.server_close()
