# SPDX-License-Identifier: Apache-2.0
"""Header blocks of gRPC calls.

Requests are encoded without the dynamic table and without Huffman codes: the block of a path is
the same every time and is built once. Responses repeat themselves as well: a block that leaves
the dynamic table unchanged means the same headers until the table changes, so it is decoded
once.
"""

from collections.abc import Mapping

from hpack import Decoder, HPACKError, OversizedHeaderListError

from rdd.http.h2.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ConnectionFailure
from rdd.http.h2.literals import string_literal

MAX_HEADER_BYTES = 64 * 1024
_MAX_KNOWN_BLOCKS = 32


class RequestEncoder:
    """Encodes the header blocks of the calls of one connection."""

    def __init__(self, *, scheme: str, authority: str) -> None:
        self._scheme = scheme
        self._authority = authority
        self._blocks: dict[str, bytes] = {}

    def encode(self, path: str, metadata: Mapping[str, str]) -> bytes:
        """Return the block of a call."""
        block = self._blocks.get(path)
        if block is None:
            block = self._blocks[path] = b"".join(
                _literal(name, value)
                for name, value in (
                    (":method", "POST"),
                    (":scheme", self._scheme),
                    (":path", path),
                    (":authority", self._authority),
                    ("te", "trailers"),
                    ("content-type", "application/grpc"),
                    ("user-agent", "rdd"),
                )
            )
        if not metadata:
            return block
        return block + b"".join(_literal(name, value) for name, value in metadata.items())


class ResponseDecoder:
    """Decodes the header blocks of one connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(MAX_HEADER_BYTES)
        self._known: dict[bytes, Mapping[str, str]] = {}

    def decode(self, block: bytes) -> Mapping[str, str]:
        """Return the headers in a block. Raises ConnectionFailure."""
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table.dynamic_entries
        before = (len(table), table[0] if table else None)
        try:
            pairs = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise ConnectionFailure(ENHANCE_YOUR_CALM, "the headers are too large") from None
        except (HPACKError, IndexError, ValueError):
            raise ConnectionFailure(COMPRESSION_ERROR, "malformed header block") from None
        headers = {
            bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in pairs
        }
        is_changed = before[0] != len(table) or before[1] is not (table[0] if table else None)
        if is_changed or len(self._known) >= _MAX_KNOWN_BLOCKS:
            self._known.clear()
        if not is_changed:
            self._known[block] = headers
        return headers


def _literal(name: str, value: str) -> bytes:
    """Return a literal field without indexing (RFC 7541, 6.2.2)."""
    return b"\0" + string_literal(name.encode("latin-1")) + string_literal(value.encode("latin-1"))
