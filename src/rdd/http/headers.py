# SPDX-License-Identifier: Apache-2.0
"""Headers of requests and responses.

Names are case-insensitive and keep the spelling of the sender. A name may occur more than
once: a lookup returns the first value, `getall` all of them. The index is built once per
request, because authentication, negotiation and decoding all look names up.
"""

from collections.abc import Container, ItemsView, Iterator, Mapping
from typing import cast

HeaderList = list[tuple[str, str]]
"""Names and values in the order of the wire."""

HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect",
    }
)  # fmt: skip
"""Headers that concern one connection and are never forwarded."""


class Headers(Mapping[str, str]):
    """The headers of one request."""

    __slots__ = ("_index", "pairs")

    def __init__(self, pairs: HeaderList) -> None:
        self.pairs = pairs
        """All names and values; do not modify."""
        index: dict[str, str] = {}
        for name, value in pairs:
            index.setdefault(name.lower(), value)
        self._index = index

    def __getitem__(self, name: str) -> str:
        return self._index[name.lower()]

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        """Return the first value of a header."""
        return self._index.get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._index

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.pairs])

    def __len__(self) -> int:
        return len(self.pairs)

    def items(self) -> ItemsView[str, str]:
        """Return all pairs, repeated names included."""
        return cast("ItemsView[str, str]", self.pairs)

    def getall(self, name: str) -> list[str]:
        """Return all values of a header."""
        name = name.lower()
        return [value for given, value in self.pairs if given.lower() == name]

    def without(self, names: Container[str], *, prefixes: tuple[str, ...] = ()) -> "Headers":
        """Return the headers without some names, which are given in lower case."""
        return Headers(
            [
                (name, value)
                for name, value in self.pairs
                if name.lower() not in names
                and not (prefixes and name.lower().startswith(prefixes))
            ]
        )

    def with_length(self, length: str) -> "Headers":
        """Return the headers with another Content-Length."""
        if self._index["content-length"] == length:
            return self
        new = Headers.__new__(Headers)
        new.pairs = [
            (name, length) if name.lower() == "content-length" else (name, value)
            for name, value in self.pairs
        ]
        new._index = {**self._index, "content-length": length}
        return new

    def end_to_end(self) -> "Headers":
        """Return the headers that may be forwarded: without those of one connection."""
        named = {token.strip().lower() for token in ",".join(self.getall("Connection")).split(",")}
        return self.without(HOP_BY_HOP | named)


def clean(value: str) -> str:
    """Return a value without line breaks and NULs: input must not start another header."""
    if value.isprintable():
        return value
    return value.replace("\r", " ").replace("\n", " ").replace("\0", " ")
