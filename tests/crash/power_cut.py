# SPDX-License-Identifier: Apache-2.0
"""States of files after a power cut, from a record of writes and syncs (`power_recorder.c`).

The model of a disk: what was written before a completed sync of its file is there. Of everything
later, any part may be there: each write is kept, lost, or torn at sectors of 512 bytes, in any
combination, because disks and file systems reorder. A killed process never loses these writes,
since the kernel has them; only this shows whether syncs are where they must be.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded call: W(rite), T(runcate), S(ync), or A: text on standard output."""

    op: str
    name: str
    offset: int
    data: bytes


def read_records(path: Path) -> Iterator[Record]:
    """Return the records of a run that was killed; an incomplete last one is left out."""
    data, at = path.read_bytes(), 0
    while at + 14 <= len(data):
        op, name_length = chr(data[at]), data[at + 1]
        name = data[at + 2 : at + 2 + name_length].decode()
        at += 2 + name_length
        if at + 12 > len(data):
            return
        offset, length = struct.unpack_from("<QI", data, at)
        at += 12
        if at + length > len(data):
            return
        yield Record(op, name, offset, data[at : at + length])
        at += length


@dataclass
class _File:
    """What is certainly on the disk, and what may be."""

    content: bytearray = field(default_factory=bytearray)
    pending: list[Record] = field(default_factory=list)


class Disk:
    """The files of a run, as far as its records have been followed."""

    def __init__(self, initial: dict[str, bytes]) -> None:
        self._files = {name: _File(bytearray(data)) for name, data in initial.items()}
        self.lines: list[str] = []
        """What the program has reported so far."""

    def follow(self, record: Record) -> None:
        if record.op == "A":
            self.lines += record.data.decode().splitlines()
            return
        file = self._files.setdefault(record.name, _File())
        if record.op == "S":
            for pending in file.pending:
                _apply(file.content, pending)
            file.pending.clear()
        else:
            file.pending.append(record)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing that a power cut could lose."""
        return not any(file.pending for file in self._files.values())

    def cut(self, directory: Path, choose: random.Random) -> None:
        """Write one of the states that a power cut at this moment may leave."""
        directory.mkdir()
        kept = choose.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        torn = choose.choice([0.0, 0.3])
        for name, file in self._files.items():
            content = bytearray(file.content)
            for pending in file.pending:
                if choose.random() < kept:
                    _apply(content, pending, choose if choose.random() < torn else None)
            (directory / name).write_bytes(content)


def _apply(content: bytearray, record: Record, choose: random.Random | None = None) -> None:
    if record.op == "T":
        del content[record.offset :]
        content.extend(bytes(record.offset - len(content)))
        return
    for start in range(0, len(record.data), SECTOR if choose else max(len(record.data), 1)):
        piece = record.data[start : start + SECTOR] if choose else record.data
        if choose and choose.random() < 0.5:
            continue
        at = record.offset + start
        if at > len(content):
            content.extend(bytes(at - len(content)))
        content[at : at + len(piece)] = piece
