# SPDX-License-Identifier: Apache-2.0
"""The blocking connection to an API server: plain HTTP/1.1, one request after another.

Replies are JSON. A failure is raised as the `ApiError` of the server's Status, a
missing reply as `Unreachable`. A reply with status 429 is retried after the delay
that the server requests, at most 10 times. A watch has a connection of its own, so
that requests can be sent while it runs, and ends quietly at its deadline.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from rdd.api.errors import ApiError, from_status
from rdd.api.mediatypes import JSON
from rdd.api.types import Object
from rdd.client import discovery
from rdd.client.discovery import GroupVersion, ServerResources
from rdd.client.errors import (
    MalformedReply,
    Unreachable,
    error_of_reply,
    warning_text,
)
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.client.tls import client_context

Query = Mapping[str, str | int | bool | None]
Headers = list[tuple[str, str]]

_MAX_ATTEMPTS = 10
_DEFAULT_RETRY_S = 1
_CONNECT_TIMEOUT_S = 10.0  # of a TLS handshake in client-go; a process that hangs does none


class Exchange(NamedTuple):
    """A request and its reply, for logs. The body of a stream is empty."""

    method: str
    url: str
    status: int
    reason: str
    seconds: float
    request_body: bytes
    reply_body: bytes


class Connection:
    """Requests to one server as one user.

    `on_warning` is called once for each different Warning header of the server,
    `on_exchange` for each reply.
    """

    def __init__(
        self,
        config: ConnectionConfig,
        *,
        timeout_s: float | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.config = config
        self.warnings: dict[str, None] = {}
        self._timeout_s = timeout_s
        self._on_warning = on_warning
        self._on_exchange = on_exchange
        parts = urlsplit(config.server)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise KubeconfigError(f'the server address "{config.server}" is no http or https URL')
        self.address = parts.netloc
        self._base = parts.path.rstrip("/")
        self._host = parts.hostname
        is_secure = parts.scheme == "https"
        self._port = port or (443 if is_secure else 80)
        self._tls = client_context(config) if is_secure else None
        self._headers: Headers = [("User-Agent", "rdd-ctl")]
        if config.token:
            self._headers.append(("Authorization", f"Bearer {config.token}"))
        self._headers += config.impersonate
        self._open: _HttpConnection | None = None

    # -- requests

    def get(self, path: str, query: Query | None = None, *, accept: str = JSON) -> Any:
        """Return the JSON at a path."""
        return self.request("GET", path, query=query, accept=accept)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send a request and return the decoded reply. Raises ApiError and ClientError."""
        data = self.raw(
            method, path, query=query, body=body, content_type=content_type, accept=accept
        )
        return _object(data, path)

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """Send a request and return the bytes of the reply."""
        encoded = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = [("Accept", accept)]
        if encoded is not None:
            headers.append(("Content-Type", content_type))
        for attempt in range(_MAX_ATTEMPTS):
            response, data = self._exchange(method, _with_query(path, query), headers, encoded)
            if response.status != 429 or attempt + 1 == _MAX_ATTEMPTS:
                break
            time.sleep(_error(response, data).retry_after_s or _DEFAULT_RETRY_S)
        self._report_warnings(response)
        if response.status >= 400:
            raise _error(response, data)
        return data

    def _exchange(
        self, method: str, path: str, headers: Headers, body: bytes | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        started = time.monotonic()
        is_reused = self._open is not None
        while True:
            if self._open is None:
                self._open = self._connect()
            try:
                response = self._send(self._open, method, path, headers, body)
                data = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if is_reused and not isinstance(error, TimeoutError):
                    is_reused = False  # the server may have closed an idle connection
                    continue
                raise self._unreachable(error) from None
            if response.will_close:
                self.close()
            self._report(method, path, response, started, body, data)
            return response, data

    def _connect(self) -> "_HttpConnection":
        return _HttpConnection(
            self._host,
            self._port,
            timeout_s=self._timeout_s,
            tls=self._tls,
            server_name=self.config.server_name,
        )

    def _send(
        self,
        connection: "_HttpConnection",
        method: str,
        path: str,
        headers: Headers,
        body: bytes | None,
    ) -> http.client.HTTPResponse:
        connection.putrequest(method, self._base + path, skip_accept_encoding=True)
        for name, value in (*self._headers, *headers):
            connection.putheader(name, value)
        if body is not None or method not in ("GET", "HEAD"):
            connection.putheader("Content-Length", str(len(body or b"")))
        connection.endheaders(body)
        return connection.getresponse()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def discover(self) -> ServerResources:
        """Return the resources of the server."""
        versions: list[GroupVersion] = []
        for root in discovery.ROOTS:
            try:
                document = self.get(root, accept=f"{discovery.AGGREGATED},{JSON}")
            except ApiError as error:
                if error.code == 404:
                    continue
                raise
            if discovery.is_aggregated(document):
                versions += discovery.parse_aggregated(document)
            else:
                versions += self._discover_legacy(root, document)
        return ServerResources(versions)

    def _discover_legacy(self, root: str, document: Object) -> Iterator[GroupVersion]:
        for group, version in discovery.legacy_versions(document):
            try:
                found = self.get(f"{root}/{group}/{version}" if group else f"{root}/{version}")
            except ApiError:
                continue  # the server behind this group is down; the others still count
            yield discovery.parse_legacy(group, version, found)

    # -- streams

    def watch(
        self, path: str, query: Query, *, accept: str = JSON, deadline: float | None = None
    ) -> Iterator[Object]:
        """Return the events of a watch until the server or `deadline` (time.monotonic) ends it.

        Raises the ApiError of an event of type ERROR.
        """
        query = {**query, "watch": "true"}
        if deadline is not None:
            query["timeoutSeconds"] = max(1, int(deadline - time.monotonic()) + 1)
        for line in self.lines(_with_query(path, query), accept=accept, deadline=deadline):
            event = _object(line, path)
            if event.get("type") == "ERROR":
                raise from_status(event.get("object") or {})
            yield event

    def lines(
        self, path: str, *, accept: str = JSON, deadline: float | None = None
    ) -> Iterator[bytes]:
        """Return the lines of a streamed reply."""
        connection = self._connect()
        if deadline is not None:
            connection.timeout = max(0.01, deadline - time.monotonic())
        try:
            started = time.monotonic()
            response = self._send(connection, "GET", path, [("Accept", accept)], None)
            self._report("GET", path, response, started)
            if response.status >= 400:
                raise _error(response, response.read())
            self._report_warnings(response)
            while True:
                if deadline is not None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return
                    if connection.sock is not None:
                        connection.sock.settimeout(left)
                line = response.readline()
                if not line:
                    return
                if line.strip():
                    yield line
        except TimeoutError as error:
            if deadline is None:
                raise self._unreachable(error) from None
            return
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    @contextlib.contextmanager
    def forward(
        self, method: str, path: str, headers: Headers, body: bytes | None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request of another client as this connection's user; the reply is unread."""
        connection = self._connect()
        try:
            try:
                response = self._send(connection, method, path, headers, body)
            except OSError as error:
                raise self._unreachable(error) from None
            yield response
        finally:
            connection.close()

    # -- reports

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"tls: failed to verify certificate: {error.verify_message}"
        elif isinstance(error, _HandshakeTimeout):
            text = "net/http: TLS handshake timeout"
        elif isinstance(error, TimeoutError):
            text = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        else:
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(
            text, address=self.address, is_refused=isinstance(error, ConnectionRefusedError)
        )

    def _report_warnings(self, response: http.client.HTTPResponse) -> None:
        for header in response.headers.get_all("Warning") or ():
            text = warning_text(header)
            if text not in self.warnings:
                self.warnings[text] = None
                if self._on_warning is not None:
                    self._on_warning(text)

    def _report(
        self,
        method: str,
        path: str,
        response: http.client.HTTPResponse,
        started: float,
        request_body: bytes | None = None,
        reply_body: bytes = b"",
    ) -> None:
        if self._on_exchange is not None:
            self._on_exchange(
                Exchange(
                    method,
                    f"{self.config.server}{path}",
                    response.status,
                    response.reason,
                    time.monotonic() - started,
                    request_body or b"",
                    reply_body,
                )
            )


class _HandshakeTimeout(TimeoutError):
    """The kernel accepted the connection, and the server's process does not respond."""


class _HttpConnection(http.client.HTTPConnection):
    """A TCP connection with or without TLS.

    An ASCII host name is passed on as bytes: the standard library encodes text with
    IDNA, whose tables take 3 ms to import.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float | None,
        tls: ssl.SSLContext | None,
        server_name: str,
    ) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._tls = tls
        self._server_name = server_name or host
        if tls is not None:
            self.default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        address = (_encoded(self.host), self.port)
        limit_s = min(self.timeout or _CONNECT_TIMEOUT_S, _CONNECT_TIMEOUT_S)
        plain = socket.create_connection(address, limit_s)  # type: ignore[arg-type]
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = plain
        if self._tls is not None:
            name = _encoded(self._server_name)
            try:
                self.sock = self._tls.wrap_socket(plain, server_hostname=name)
            except BaseException as error:
                plain.close()
                if isinstance(error, TimeoutError) and limit_s == _CONNECT_TIMEOUT_S:
                    raise _HandshakeTimeout from None
                raise
        self.sock.settimeout(self.timeout)


def _encoded(host: str) -> str | bytes:
    return host.encode() if host.isascii() else host


def _object(data: bytes, path: str) -> Object:
    try:
        found = json.loads(data)
    except ValueError:
        raise MalformedReply(f"the reply of the server to {path} is not JSON") from None
    if not isinstance(found, dict):
        raise MalformedReply(f"the reply of the server to {path} is not an object")
    return found


def _error(response: http.client.HTTPResponse, data: bytes) -> ApiError:
    return error_of_reply(
        response.status, data, retry_after=response.headers.get("Retry-After") or ""
    )


def _with_query(path: str, query: Query | None) -> str:
    pairs = {
        key: "true" if value is True else value
        for key, value in (query or {}).items()
        if value is not None and value is not False and value != ""
    }
    if not pairs:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(pairs)}"
