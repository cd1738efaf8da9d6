# SPDX-License-Identifier: Apache-2.0
"""A writer of small ISO 9660 images with Rock Ridge names, for the cidata disk.

The disk is rewritten at each start of a machine and holds a few dozen small files, so it is
built in memory without a program (genisoimage, xorriso, mkisofs; none is ubiquitous). The image
has the primary volume descriptor, both path tables, directories and files, and the three Rock
Ridge (SUSP) fields that a Linux kernel reads: SP in the root directory, PX with the mode, NM
with the real name. The plain ISO names are just numbers, because no guest reads them.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

SECTOR_BYTES = 2048
_BYTE_ORDERS: Final = ("little", "big")
_FIRST_SECTOR = 16  # the sectors before are for boot loaders
_DIRECTORY_MODE = 0o040755
_FILE_MODE = 0o100644
_SCRIPT_MODE = 0o100755
_SYSTEM_USE_START = b"SP\x07\x01\xbe\xef\x00"
_NO_TIME = b"0" * 16 + b"\0"
# A constant time: equal content gives equal bytes.
_RECORDED = bytes([100, 1, 1, 0, 0, 0, 0])


@dataclass(slots=True)
class _Entry:
    """A file or a directory of the image."""

    name: str
    number: int
    data: bytes | None = None
    """The content of a file; None for a directory."""
    children: "dict[str, _Entry]" = field(default_factory=dict)
    sector: int = 0
    size_bytes: int = 0

    @property
    def mode(self) -> int:
        if self.data is None:
            return _DIRECTORY_MODE
        return _SCRIPT_MODE if self.data.startswith(b"#!") else _FILE_MODE

    @property
    def identifier(self) -> bytes:
        return b"%08d" % self.number if self.data is None else b"%08d.;1" % self.number


def image(files: Mapping[str, bytes], *, label: str) -> bytes:
    """Return a disk with `files` (relative paths with `/`) and a label of up to 32 characters.

    Files that begin with `#!` are executable. Raises ValueError for a name that does not fit.
    """
    root = _tree(files)
    directories = list(_breadth_first(root))
    table_bytes = sum(len(_table_entry(node, 0, "little")) for node in directories)
    table_sectors = _sectors(table_bytes)
    sector = _FIRST_SECTOR + 2
    little, big = sector, sector + table_sectors
    sector += 2 * table_sectors
    for node in directories:
        node.sector = sector
        node.size_bytes = len(_directory(node, node))
        sector += _sectors(node.size_bytes)
    contents = [
        child for node in directories for child in node.children.values() if _is_file(child)
    ]
    for node in contents:
        node.sector = sector
        node.size_bytes = len(node.data or b"")
        sector += _sectors(node.size_bytes)

    out = bytearray(_FIRST_SECTOR * SECTOR_BYTES)
    out += _volume_descriptor(root, label, sector, table_bytes, little, big)
    out += _padded(b"\xffCD001\x01")
    parents = _parents(directories)
    for order in _BYTE_ORDERS:
        table = (_table_entry(node, parents[id(node)], order) for node in directories)
        out += _padded(b"".join(table))
    for node in directories:
        parent = directories[parents[id(node)] - 1]
        out += _padded(_directory(node, parent))
    for node in contents:
        out += _padded(node.data or b"")
    return bytes(out)


def _is_file(node: _Entry) -> bool:
    return node.data is not None


def _tree(files: Mapping[str, bytes]) -> _Entry:
    root = _Entry("", 0)
    number = 0
    for path in sorted(files):
        node = root
        *above, last = path.split("/")
        for name in above:
            if name not in node.children:
                number += 1
                node.children[name] = _Entry(_checked(name), number)
            node = node.children[name]
        number += 1
        node.children[last] = _Entry(_checked(last), number, files[path])
    return root


def _checked(name: str) -> str:
    if not 0 < len(name.encode()) <= 120 or name in (".", ".."):
        raise ValueError(f"{name!r} is not a valid file name on a cidata disk")
    return name


def _breadth_first(root: _Entry) -> Iterator[_Entry]:
    level = [root]
    while level:
        yield from level
        level = [child for node in level for child in node.children.values() if child.data is None]


def _parents(directories: list[_Entry]) -> dict[int, int]:
    """Return the number of each directory's parent, from 1; the root is its own parent."""
    found = {id(directories[0]): 1}
    for number, node in enumerate(directories, 1):
        for child in node.children.values():
            if child.data is None:
                found[id(child)] = number
    return found


def _directory(node: _Entry, parent: _Entry) -> bytes:
    is_root = node is parent
    start = _SYSTEM_USE_START if is_root else b""
    records = [_record(node, b"\0", start + _posix(node)), _record(parent, b"\1", _posix(parent))]
    for child in sorted(node.children.values(), key=lambda child: child.identifier):
        name = child.name.encode()
        alternate = b"NM" + bytes([5 + len(name), 1, 0]) + name
        records.append(_record(child, child.identifier, _posix(child) + alternate))
    out = bytearray()
    for record in records:
        if len(out) % SECTOR_BYTES + len(record) > SECTOR_BYTES:  # no record may cross a boundary
            out += b"\0" * (-len(out) % SECTOR_BYTES)
        out += record
    return bytes(out + b"\0" * (-len(out) % SECTOR_BYTES))


def _record(node: _Entry, identifier: bytes, system_use: bytes) -> bytes:
    is_directory = node.data is None
    body = (
        b"\0"
        + _both(node.sector)
        + _both(node.size_bytes)
        + _RECORDED
        + bytes([2 if is_directory else 0, 0, 0])
        + b"\x01\0\0\x01"
        + bytes([len(identifier)])
        + identifier
        + (b"\0" if len(identifier) % 2 == 0 else b"")
        + system_use
    )
    length = 1 + len(body) + (1 + len(body)) % 2
    return bytes([length]) + body.ljust(length - 1, b"\0")


def _posix(node: _Entry) -> bytes:
    return b"PX\x24\x01" + _both(node.mode) + _both(1) + _both(0) + _both(0)


def _table_entry(node: _Entry, parent: int, order: Literal["little", "big"]) -> bytes:
    name = node.identifier if node.number else b"\0"
    entry = bytes([len(name), 0])
    entry += node.sector.to_bytes(4, order)
    entry += parent.to_bytes(2, order)
    return entry + name + b"\0" * (len(name) % 2)


def _volume_descriptor(
    root: _Entry, label: str, sectors: int, table_bytes: int, little: int, big: int
) -> bytes:
    name = label.encode("ascii")
    if len(name) > 32:
        raise ValueError(f"the volume label {label!r} is longer than 32 characters")
    out = bytearray(b"\x01CD001\x01\0")
    out += b" " * 32 + name.ljust(32) + b"\0" * 8 + _both(sectors) + b"\0" * 32
    out += _both16(1) + _both16(1) + _both16(SECTOR_BYTES) + _both(table_bytes)
    out += little.to_bytes(4, "little") + b"\0" * 4 + big.to_bytes(4, "big") + b"\0" * 4
    out += _record(root, b"\0", b"")
    out += b" " * (128 * 4) + b" " * (37 * 3) + _NO_TIME * 4 + b"\x01\0"
    return _padded(bytes(out))


def _both(value: int) -> bytes:
    return value.to_bytes(4, "little") + value.to_bytes(4, "big")


def _both16(value: int) -> bytes:
    return value.to_bytes(2, "little") + value.to_bytes(2, "big")


def _sectors(size_bytes: int) -> int:
    return math.ceil(size_bytes / SECTOR_BYTES)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % SECTOR_BYTES)
