# SPDX-License-Identifier: Apache-2.0
"""Ranges of keys and the identity of log rows.

Keys sort by code point, which is the order of their UTF-8 bytes and so the
order of SQLite's BINARY collation: a prefix is a half-open range [low, high)
in both implementations.

A row of the log is identified by one integer that carries the revision, the
position of the operation in its transaction and whether it is a delete:

    id = revision << 12 | position << 1 | is_delete

Rows in id order are rows in commit order, and the newest id of a key shows
whether the key is live; neither needs another column or index.
"""

ID_SHIFT = 12
MAX_OPS = 1 << (ID_SHIFT - 1)
"""The maximum number of operations in one transaction; etcd allows 128."""

NO_END = b""
"""Upper bound of an unbounded range: SQLite sorts every blob after every text."""

Row = tuple[int, str, int, int, int, bytes]
"""id, key, created (revision), previous (id of the row replaced, 0: none),
expires (milliseconds since the epoch, 0: never), value."""


def first_id_after(revision: int) -> int:
    """Return the bound b such that a row belongs to `revision` or earlier if and only if id < b."""
    return (revision + 1) << ID_SHIFT


def prefix_end(prefix: str) -> str | bytes:
    """Return the smallest text greater than every text that starts with prefix, or NO_END."""
    for position in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[position])
        if point == 0x10FFFF:
            continue
        # The code points of surrogates do not exist in UTF-8.
        following = 0xE000 if point == 0xD7FF else point + 1
        return prefix[:position] + chr(following)
    return NO_END


def scan_range(prefix: str, after: str) -> tuple[str, str | bytes]:
    """Return the range [low, high) of keys that start with prefix and sort after `after`."""
    # Nothing sorts between a key and the key followed by NUL.
    low = max(prefix, after + "\0") if after else prefix
    return low, prefix_end(prefix)
