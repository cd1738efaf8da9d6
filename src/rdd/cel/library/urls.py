# SPDX-License-Identifier: Apache-2.0
"""URLs: `url('https://…')`, `isURL` and the parts of a URL.

Accepts what Go's url.ParseRequestURI accepts: an absolute URI or an absolute
path, without a fragment.
"""

import re
from urllib.parse import unquote, unquote_plus

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import Library, traversal
from rdd.cel.values import TYPES

LIBRARY = Library()


class URL:
    """A parsed URL."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def __hash__(self) -> int:
        return hash((URL, self.text))

    def __repr__(self) -> str:
        return f"url({self.text})"


TYPES[URL] = t.URL

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_HOST_FORBIDDEN = re.compile(r"[\x00-\x20\"<>\\^`{|}#?/]")


def _scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    if found is not None:
        return found[1].lower(), text[found.end() :]
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    return "", text


def _check_escapes(text: str) -> None:
    found = _BAD_ESCAPE.search(text)
    if found is not None:
        raise ValueError(f"invalid URL escape {quote(found[0])}")


def _check_host(host: str) -> None:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        found = _HOST_FORBIDDEN.search(host)
        if found is not None:
            raise ValueError(f"invalid character {quote(found[0])} in host name")
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
        _check_escapes(host)
    if port and not re.match(r":[0-9]*\Z", port):
        raise ValueError(f"invalid port {quote(port)} after host")


def _parse(text: str) -> URL:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text == "*":
        return URL(text, "", "", "*", "")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return URL(text, scheme, "", "", query)  # opaque, such as mailto:
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        if at and re.search(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]", user):
            raise ValueError("net/url: invalid userinfo")
        _check_host(host)
    _check_escapes(rest)
    return URL(text, scheme, host, rest, query)


def parse_url(text: str) -> URL:
    """Return the URL a text stands for. Raises EvaluationError."""
    problem = url_problem(text)
    if problem:
        raise EvaluationError(f"URL parse error during conversion from string: {problem}")
    return _parse(text)


def url_problem(text: str) -> str:
    """Return why a text is not a URL, as Go's net/url words it, or nothing."""
    try:
        _parse(text)
    except ValueError as error:
        return f"parse {quote(text)}: {error}"
    return ""


def _split_host(url: URL) -> tuple[str, str]:
    host, port = url.host, ""
    found = re.search(r":([0-9]*)\Z", host)
    if found is not None and not (host.startswith("[") and host.endswith("]")):
        host, port = host[: found.start()], found[1]
    return host.removeprefix("[").removesuffix("]") if host.startswith("[") else host, port


_PATH_SAFE = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,;=:@/[]%"
)


def _escaped_path(url: URL) -> str:
    """Return the path as written, if that is a valid encoding of it, else re-encoded."""
    if all(char in _PATH_SAFE for char in url.path):
        return url.path
    decoded = unquote(url.path)
    safe = _PATH_SAFE - frozenset("%[]!'()*")
    return "".join(
        char if char in safe else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in decoded
    )


def _query(url: URL) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        name, _, value = pair.partition("=")
        result.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return result


def _declare() -> None:
    method, url = LIBRARY.method, t.URL
    LIBRARY.function("url", "string_to_url", (t.STRING,), url, parse_url, charge=traversal)
    LIBRARY.function(
        "isURL", "is_url_string", (t.STRING,), t.BOOL, lambda text: not url_problem(text)
    )
    method("getScheme", "url_get_scheme", (url,), t.STRING, lambda u: u.scheme)
    method("getHost", "url_get_host", (url,), t.STRING, lambda u: u.host)
    method("getHostname", "url_get_hostname", (url,), t.STRING, lambda u: _split_host(u)[0])
    method("getPort", "url_get_port", (url,), t.STRING, lambda u: _split_host(u)[1])
    method("getEscapedPath", "url_get_escaped_path", (url,), t.STRING, _escaped_path)
    values = t.map_of(t.STRING, t.list_of(t.STRING))
    method("getQuery", "url_get_query", (url,), values, _query)


_declare()
