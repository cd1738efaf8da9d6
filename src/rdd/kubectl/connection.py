# SPDX-License-Identifier: Apache-2.0
"""The connection to an API server: plain HTTP/1.1, one request after another.

Answers are JSON. A failure is the server's Status, made up if the answer is
none. Warnings of the server go to stderr, each text once. A watch has a
connection of its own, so that requests can be made while it runs, and ends
quietly at its deadline.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO
from urllib.parse import urlencode, urlsplit

from rdd.api.types import Object
from rdd.kubectl.failures import CtlError, ServerError, Unreachable
from rdd.kubectl.kubeconfig import Target

Query = Mapping[str, str | int | bool | None]

_MAX_TRIES = 10
_DEFAULT_RETRY_S = 1.0

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Connection:
    """Requests to one server as one user."""

    def __init__(
        self, target: Target, err: TextIO, *, timeout: float | None = None, verbosity: int = 0
    ) -> None:
        self.target = target
        self._err = err
        self._timeout = timeout
        self._verbosity = verbosity
        parts = urlsplit(target.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CtlError(f'the server address "{target.server}" is no http or https URL')
        self._host = parts.hostname
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self.address = parts.netloc
        self._base = parts.path.rstrip("/")
        self._context = _tls(target) if self._is_secure else None
        self._open: http.client.HTTPConnection | None = None
        self._headers = _headers(target)
        self.warnings: dict[str, None] = {}

    # -- requests

    def get(self, path: str, query: Query | None = None, *, accept: str = JSON) -> Any:
        """The JSON at a path."""
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
        """Make a request; returns the decoded answer. Raises ServerError, Unreachable."""
        data = self.raw(
            method, path, query=query, body=body, content_type=content_type, accept=accept
        )
        try:
            return json.loads(data)
        except ValueError:
            raise CtlError(f"the server answered {path} with something that is no JSON") from None

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
        """Like `request`, but the bytes of the answer."""
        encoded = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = [("Accept", accept)]
        if encoded is not None:
            headers.append(("Content-Type", content_type))
        for _ in range(_MAX_TRIES):
            response, data = self._exchange(method, _with_query(path, query), headers, encoded)
            if response.status != 429:
                break
            time.sleep(_retry_after(response))
        self._show_warnings(response)
        if response.status >= 400:
            raise failure(response.status, data)
        return data

    def _exchange(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes | None
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
            self._log(method, path, response, data, body, started)
            return response, data

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._context
        )
        if self.target.server_name:
            plain = socket.create_connection((self._host, self._port), self._timeout)
            connection.sock = self._context.wrap_socket(
                plain, server_hostname=self.target.server_name
            )
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
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
        """Give up the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # -- streams

    def watch(
        self, path: str, query: Query, *, accept: str = JSON, deadline: float | None = None
    ) -> Iterator[Object]:
        """The events of a watch, until the server or `deadline` (time.monotonic) ends it.

        Raises ServerError for an event of type ERROR.
        """
        query = {**query, "watch": "true"}
        if deadline is not None:
            query["timeoutSeconds"] = max(1, int(deadline - time.monotonic()) + 1)
        for line in self.lines(_with_query(path, query), accept=accept, deadline=deadline):
            event: Object = json.loads(line)
            if event.get("type") == "ERROR":
                status = event.get("object") or {}
                raise failure(int(status.get("code") or 500), json.dumps(status).encode())
            yield event

    def lines(
        self, path: str, *, accept: str = JSON, deadline: float | None = None
    ) -> Iterator[bytes]:
        """The lines of a streamed answer."""
        connection = self._connect()
        if deadline is not None:
            connection.timeout = max(0.01, deadline - time.monotonic())
        try:
            started = time.monotonic()
            response = self._send(connection, "GET", path, [("Accept", accept)], None)
            self._log("GET", path, response, b"", None, started)
            if response.status >= 400:
                raise failure(response.status, response.read())
            self._show_warnings(response)
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
        except TimeoutError:
            if deadline is None:
                raise self._unreachable(TimeoutError("timed out")) from None
            return
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    @contextlib.contextmanager
    def forward(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes | None
    ) -> Iterator[http.client.HTTPResponse]:
        """Someone else's request, made as the user of this connection; the answer is open."""
        connection = self._connect()
        try:
            yield self._send(connection, method, path, headers, body)
        except OSError as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    # -- for the user's eyes

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Unreachable(
                self.address, f"tls: failed to verify certificate: {error.verify_message}"
            )
        if isinstance(error, TimeoutError):
            return Unreachable(
                self.address,
                "net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            )
        return Unreachable(self.address, error)

    def _show_warnings(self, response: http.client.HTTPResponse) -> None:
        for header in response.headers.get_all("Warning") or ():
            text = _warning_text(header)
            if text not in self.warnings:
                self.warnings[text] = None
                self._err.write(f"Warning: {text}\n")

    def _log(
        self,
        method: str,
        path: str,
        response: http.client.HTTPResponse,
        data: bytes,
        body: bytes | None,
        started: float,
    ) -> None:
        if self._verbosity < 6:
            return
        took = round((time.monotonic() - started) * 1000)
        url = f"{self.target.server}{path}"
        self._err.write(f"{method} {url} {response.status} {response.reason} in {took} ms\n")
        if self._verbosity >= 8:
            for name, content in (("Request", body), ("Response", data)):
                if content:
                    self._err.write(f"{name} Body: {content.decode(errors='replace')}\n")


def failure(code: int, data: bytes) -> ServerError:
    """The failure that an answer describes."""
    try:
        status = json.loads(data)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return ServerError(status)
    if code == 404:
        return ServerError(
            {
                "code": code,
                "reason": "NotFound",
                "message": "the server could not find the requested resource",
            }
        )
    text = data.decode(errors="replace").strip() or http.client.responses.get(code, "")
    reason = {401: "Unauthorized", 403: "Forbidden"}.get(code, "")
    return ServerError({"code": code, "reason": reason, "message": text})


def _headers(target: Target) -> tuple[tuple[str, str], ...]:
    headers = [("User-Agent", "rdd-ctl")]
    if target.token:
        headers.append(("Authorization", f"Bearer {target.token}"))
    return (*headers, *target.impersonate)


def _tls(target: Target) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Like Go: any certificate in the kubeconfig is trusted, a root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if target.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif target.authority:
        try:
            context.load_verify_locations(cadata=target.authority)
        except ssl.SSLError:
            raise CtlError("unable to load root certificates: no PEM certificate found") from None
    else:
        context.load_default_certs()
    if target.client_certificate:
        _load_client_certificate(context, target)
    return context


def _load_client_certificate(context: ssl.SSLContext, target: Target) -> None:
    """Python reads client certificates from files only; this one lives for a moment."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="rdd-", suffix=".pem") as file:
        file.write(f"{target.client_certificate}\n{target.client_key}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise CtlError(f"tls: the client certificate cannot be used: {error.reason}") from None


def _with_query(path: str, query: Query | None) -> str:
    if not query:
        return path
    pairs = {
        key: "true" if value is True else value
        for key, value in query.items()
        if value is not None and value is not False and value != ""
    }
    if not pairs:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(pairs)}"


def _retry_after(response: http.client.HTTPResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", _DEFAULT_RETRY_S))
    except ValueError:
        return _DEFAULT_RETRY_S


def _warning_text(header: str) -> str:
    """The quoted text of `299 - "text"`."""
    quoted = header.partition('"')[2].rpartition('"')[0]
    return quoted.replace('\\"', '"').replace("\\\\", "\\") or header
