# SPDX-License-Identifier: Apache-2.0
"""How servers are reached: one mirror for everything, proxies, additional authorities.

A mirror is one base URL. The file of `https://host/path` is then at `<mirror>/host/path`, so
that a plain copy of the publishers' trees, or a caching proxy, can serve everything. What is
fetched from it is verified with the same digests.

What may be fetched at all is limited by `Sources`: every URL that is requested is checked, those
of redirects, too.

Without explicit proxies, the variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` apply.
"""

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.sources import EVERYTHING, Sources

if TYPE_CHECKING:
    from aiohttp import ClientSession, TraceConfig

_CONNECT_S = 10
_READ_TIMEOUT_S = 60  # without any data from the server


@dataclass(frozen=True, slots=True)
class Network:
    """The way to all servers."""

    mirror: str = ""
    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: Sequence[str] = ()
    authorities: Sequence[str] = ()
    """Certificates in PEM, in addition to those of the system."""
    sources: Sources = EVERYTHING
    """What may be fetched."""

    @classmethod
    def of_settings(cls, spec: Mapping[str, Any], sources: Sources) -> "Network":
        """Return the network of the settings of an App, as its spec has them."""
        proxy = spec.get("proxy") or {}
        return cls(
            mirror=(spec.get("downloads") or {}).get("mirror") or "",
            http_proxy=proxy.get("httpProxy") or "",
            https_proxy=proxy.get("httpsProxy") or "",
            no_proxy=tuple(proxy.get("noProxy") or ()),
            authorities=tuple((spec.get("certificates") or {}).get("authorities") or ()),
            sources=sources,
        )

    def resolve(self, location: str) -> str:
        """Return the URL from which the file of a location is fetched. Raises FetchError."""
        parts = urlsplit(location)
        if parts.scheme not in ("http", "https"):
            raise FetchError(
                f'failed to download "{location}": only http, https and file are supported',
                FetchFailure.INVALID_SOURCE,
            )
        if not parts.hostname:
            raise FetchError(
                f'failed to download "{location}": the URL has no host',
                FetchFailure.INVALID_SOURCE,
            )
        url = location
        if self.mirror:
            query = f"?{parts.query}" if parts.query else ""
            url = f"{self.mirror.rstrip('/')}/{parts.netloc}{parts.path}{query}"
        self.check_url(url)
        return url

    def check_url(self, location: str) -> None:
        """Raise FetchError for a URL or path that may not be read."""
        if problem := self.sources.url_problem(location):
            raise FetchError(f"failed to download: {problem}", FetchFailure.NOT_ALLOWED)

    def check_digest(self, location: str, digest: str) -> None:
        """Raise FetchError for a file that may not be fetched with a digest."""
        if problem := self.sources.digest_problem(location, digest):
            raise FetchError(f"failed to download: {problem}", FetchFailure.NOT_ALLOWED)

    def session(self) -> "ClientSession":
        """Return a new session for requests; the caller closes it."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_S, sock_read=_READ_TIMEOUT_S
        )
        return aiohttp.ClientSession(
            timeout=timeout,
            trust_env=not (self.http_proxy or self.https_proxy),
            trace_configs=[] if self.sources is EVERYTHING else [self._redirect_checks()],
        )

    def _redirect_checks(self) -> "TraceConfig":
        import aiohttp
        from yarl import URL

        async def check(_session: Any, _context: Any, params: Any) -> None:
            headers = params.response.headers
            target = headers.get("Location") or headers.get("URI") or ""
            self.check_url(str(params.url.join(URL(target))))

        traces = aiohttp.TraceConfig()
        traces.on_request_redirect.append(check)
        return traces

    def options(self, url: str) -> dict[str, Any]:
        """Return the arguments of a request to a URL."""
        options: dict[str, Any] = {}
        parts = urlsplit(url)
        proxy = self.http_proxy if parts.scheme == "http" else self.https_proxy or self.http_proxy
        if proxy and not self._bypasses(parts.hostname or ""):
            options["proxy"] = proxy
        if self.authorities and parts.scheme == "https":
            options["ssl"] = self._context()
        return options

    def _bypasses(self, host: str) -> bool:
        return any(_is_excluded(host, entry.strip().lower()) for entry in self.no_proxy)

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        for pem in self.authorities:
            try:
                context.load_verify_locations(cadata=pem)
            except (ssl.SSLError, ValueError) as error:
                raise FetchError(
                    f"a certificate of an additional authority is not PEM: {error}",
                    FetchFailure.NOT_TRUSTED,
                ) from error
        return context


DIRECT = Network()
"""Without settings: the proxies of the environment, and no limits."""


def _is_excluded(host: str, entry: str) -> bool:
    """Return whether an entry of NO_PROXY matches: `*`, a network, a host or a domain."""
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # one of them is a name
        name = entry.lstrip("*").lstrip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
