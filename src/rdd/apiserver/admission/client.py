# SPDX-License-Identifier: Apache-2.0
"""Calls of webhooks, in this process or over HTTPS.

One aiohttp session keeps connections alive. Each bundle of certificate authorities has its own TLS
context, and only calls with the same context share connections. A webhook is verified by its
bundle alone, or by the system's authorities if it has none. Redirects and compressed responses are
rejected, and at most MAX_RESPONSE_BYTES of a response are read.

Every failure ends in a `CallFailed` with the text of Go's HTTP client, because operators search
for these texts.
"""

import asyncio
import base64
import binascii
import importlib
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import decode, errors
from rdd.apiserver.admission import in_process_webhooks
from rdd.apiserver.admission.in_process_webhooks import Handler, InProcessEndpoints
from rdd.apiserver.http.request import Request
from rdd.base.gotext import quote

if TYPE_CHECKING:
    import aiohttp

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""A patch that rewrites the largest object we store is 2 MiB in base64."""

_MAX_CONTEXTS = 100
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",
    "User-Agent": "kube-apiserver-admission",
}


class CallFailed(Exception):
    """A webhook could not be called."""


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """The endpoint of a webhook: its clientConfig."""

    url: str = ""
    ca_bundle: str = ""
    """PEM in base64, as in the object."""
    service: str = ""
    """The name of the service if the webhook has no URL."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "WebhookEndpoint":
        """Return the endpoint of a clientConfig."""
        bundle = config.get("caBundle") or ""
        service = config.get("service")
        if not service:
            return cls(config.get("url") or "", bundle)
        host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
        path = "/" + (service.get("path") or "").lstrip("/")
        url = f"https://{host}:{service.get('port') or 443}{path}"
        return cls(url, bundle, service.get("name") or "")


class WebhookClient:
    """Calls webhooks; opens the first socket on demand."""

    def __init__(self, in_process: InProcessEndpoints) -> None:
        self.endpoints = in_process
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def call(
        self, endpoint: WebhookEndpoint, review: dict[str, Any], *, timeout_s: int, request: Request
    ) -> Any:
        """Return the JSON response of a webhook to a review; raise CallFailed."""
        shown = f"{endpoint.url}?timeout={timeout_s}s"
        handler = self.endpoints.find(endpoint.url)
        try:
            body = orjson.dumps(review)
        except orjson.JSONEncodeError as error:
            raise CallFailed(f"the review cannot be encoded: {error}") from None
        try:
            async with asyncio.timeout(timeout_s):
                if handler is not None:
                    response = await _call_handler(handler, body, request)
                elif endpoint.service:
                    raise _RequestFailed(f"service {quote(endpoint.service)} not found")
                else:
                    response = await self._post(endpoint, shown, body)
        except TimeoutError:
            raise CallFailed(f"Post {quote(shown)}: context deadline exceeded") from None
        except _RequestFailed as error:
            raise CallFailed(f"Post {quote(shown)}: {error}") from None
        try:
            return decode.decode_json(response)
        except errors.BadRequest as error:
            raise CallFailed(
                f"couldn't get version/kind; json parse error: {error.message}"
            ) from None

    async def close(self) -> None:
        """Close idle connections; calls in progress fail."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, endpoint: WebhookEndpoint, url: str, body: bytes) -> bytes:
        if "aiohttp" not in sys.modules:
            # The first import takes 80 ms, which other requests need not wait for.
            await asyncio.to_thread(importlib.import_module, "aiohttp")
        import aiohttp

        context = await self._context(endpoint.ca_bundle)
        try:
            try:
                return await self._exchange(url, body, context)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The peer may have closed or reset the idle connection.
                return await self._exchange(url, body, context)
        except aiohttp.ServerDisconnectedError as error:
            raise _RequestFailed("EOF") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise _RequestFailed(_tls_problem(error.certificate_error)) from error
        except aiohttp.ClientConnectorError as error:
            raise _RequestFailed(_dial_problem(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise _RequestFailed(str(error) or type(error).__name__) from error

    async def _exchange(self, url: str, body: bytes, context: ssl.SSLContext) -> bytes:
        import aiohttp
        from yarl import URL

        session = self._session
        if session is None:
            session = self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
            )
        sent_url = URL(url, encoded=True)
        async with session.post(
            sent_url, data=body, ssl=context, allow_redirects=False
        ) as response:
            return _checked(response.status, await _read(response))

    async def _context(self, bundle: str) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            # Loading the system's authorities takes milliseconds, so it runs in a thread.
            found = await asyncio.to_thread(_tls_context, bundle)
            if len(self._contexts) >= _MAX_CONTEXTS:
                self._contexts.clear()
            self._contexts[bundle] = found
        return found


class _RequestFailed(Exception):
    """No response; the text follows the URL."""


async def _call_handler(handler: Handler, body: bytes, request: Request) -> bytes:
    # Serialised, so that handler and server can modify their objects independently.
    token = in_process_webhooks.depth.set(request.depth + 1)
    try:
        response = orjson.dumps(await handler(orjson.loads(body), request))
    except TimeoutError:
        raise
    except Exception as error:
        raise _RequestFailed(f"{type(error).__name__}: {error}") from error
    finally:
        in_process_webhooks.depth.reset(token)
    if len(response) > MAX_RESPONSE_BYTES:
        raise _RequestFailed(_TOO_LARGE)
    return response


_TOO_LARGE = f"the response is larger than {MAX_RESPONSE_BYTES} bytes"


def _tls_context(bundle: str) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    try:
        pem = base64.b64decode(bundle).decode("ascii")
        context = ssl.create_default_context(cadata=pem)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise _RequestFailed("unable to load root certificates: no valid certificates") from error
    # As in Go, every certificate of the bundle is a trust anchor, self-signed or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_RESPONSE_BYTES:
            # The rest of the body is unread, so the connection cannot be reused.
            response.close()
            raise _RequestFailed(_TOO_LARGE)
        chunks.append(chunk)
    return b"".join(chunks)


def _checked(status: int, text: bytes) -> bytes:
    if not 200 <= status <= 206:
        raise CallFailed(_status_problem(status, text))
    if not text:
        raise CallFailed(f"0-length response with status code: {status}")
    return text


def _status_problem(status: int, text: bytes) -> str:
    """Return the text of client-go for a response that is not a Status."""
    shown = quote(text[:2048].decode("utf-8", "replace").strip()) if text else '"unknown"'
    if status >= 500:
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return _STATUSES.get(status) or (
        f"the server responded with the status code {status} but did not return more information"
    )


_STATUSES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "forbidden",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
}


_UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_VERIFICATION = {  # by OpenSSL's X509_V_ERR codes
    10: "certificate has expired or is not yet valid",
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
}


def _tls_problem(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _VERIFICATION.get(error.verify_code, error.verify_message)
        return f"tls: failed to verify certificate: x509: {why}"
    return f"tls: {error}"


def _dial_problem(error: "aiohttp.ClientConnectorError") -> str:
    reason = error.os_error
    if isinstance(reason, ssl.SSLError):
        return _tls_problem(reason)
    dialled = f"dial tcp {error.host}:{error.port}"
    if isinstance(reason, ConnectionRefusedError):
        return f"{dialled}: connect: connection refused"
    return f"{dialled}: {reason.strerror or reason}"
