# SPDX-License-Identifier: Apache-2.0
"""From where files may be fetched, and with which checksums, as an administrator allows it.

A pattern is a URL: `https://downloads.example.com/rdd/*`. In its path `*` stands for any text,
in its host only for the labels before a domain (`https://*.example.com/…`), so that no pattern
matches a host that merely starts like the allowed one. Every URL of a transfer must match one:
that of the file, of its mirror, of the file with its checksum, and of every redirect.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_SCHEMES = ("https", "http", "file")


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """The URLs that one pattern allows."""

    text: str
    scheme: str
    host: str
    """In lower case; `.example.com` stands for every host below that domain."""
    port: int
    path: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> "UrlPattern":
        """Return the pattern of a text. Raises ValueError with what is allowed."""
        try:
            parts = urlsplit(text)
            host, port = (parts.hostname or ""), parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from None
        if parts.scheme not in _SCHEMES:
            raise ValueError("must start with https://, http:// or file://")
        if (parts.scheme == "file") == bool(host) or not parts.path:
            raise ValueError("must have a host and a path, such as https://example.com/files/*")
        if parts.username is not None or parts.fragment or parts.query:
            raise ValueError("must not have a user, a query or a fragment")
        if host.startswith("*."):
            host = host[1:]
        if "*" in host:
            raise ValueError('may have "*" in the host only as its first label')
        path = ".*".join(map(re.escape, parts.path.split("*")))
        return cls(text, parts.scheme, host, port, re.compile(path, re.DOTALL))

    def matches(self, parts: SplitResult) -> bool:
        host = (parts.hostname or "").rstrip(".")
        if parts.scheme != self.scheme:
            return False
        if host != self.host and not (self.host.startswith(".") and host.endswith(self.host)):
            return False
        port = parts.port or _PORTS.get(parts.scheme, 0)
        return port == self.port and self.path.fullmatch(parts.path) is not None


@dataclass(frozen=True, slots=True)
class Sources:
    """What may be fetched."""

    patterns: Sequence[UrlPattern] | None = None
    """The allowed URLs; None: all."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The only digest that a URL may have."""
    requires_digest: bool = False
    """Whether a file is fetched only with a digest that was given with its URL."""
    origin: str = ""
    """The file with these rules, for messages."""

    @property
    def has_digests(self) -> bool:
        return self.requires_digest or bool(self.digests)

    def url_problem(self, location: str) -> str:
        """Return why a URL or path may not be read; empty if it may."""
        if self.patterns is None:
            return ""
        url = location if "://" in location else f"file://{location}"
        if not any(
            pattern.matches(parts) for parts in _unambiguous(url) for pattern in self.patterns
        ):
            allowed = ", ".join(pattern.text for pattern in self.patterns) or "nothing"
            return f'"{location}" is not allowed by resource.urls of {self.origin}: {allowed}'
        return ""

    def digest_problem(self, location: str, digest: str) -> str:
        """Return why a file may not be fetched with a digest; empty if it may."""
        only = self.digests.get(location)
        if only is not None and digest.lower() != only.lower():
            return (
                f'"{location}" must have the digest {only} by resource.digests of {self.origin}'
                + (f", not {digest}" if digest else "")
            )
        if self.requires_digest and not digest:
            return f'"{location}" needs a digest by resource.requireDigest of {self.origin}'
        return ""

    def problem(self, location: str, digest: str) -> str:
        """Return why a file may not be fetched; empty if it may."""
        return self.url_problem(location) or self.digest_problem(location, digest)


EVERYTHING = Sources()


def _unambiguous(url: str) -> Sequence[SplitResult]:
    """Return the parts of a URL; nothing if a server could read its path as another one."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ()
    plain = unquote(unquote(parts.path))
    if "\\" in plain or not {".", ".."}.isdisjoint(plain.split("/")) or not url.isprintable():
        return ()
    return (parts,)
