# SPDX-License-Identifier: Apache-2.0
"""Digests of files, and the checksum files in which publishers list them.

Publishers use several forms for the same fact: the output of `sha256sum` (with or without the
mark of binary files), of BSD's `sha256`, one bare digest per file. The length of the number
identifies the algorithm.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rdd.host.errors import FailureReason, HostError

_HEX_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_BY_LENGTH = {length: name for name, length in _HEX_DIGITS.items()}
_HEX = re.compile(r"[0-9a-f]+")
_BSD = re.compile(r"SHA\d{3} ?\((?P<name>.+)\) = (?P<hex>[0-9a-fA-F]+)")
_GNU = re.compile(r"(?P<hex>[0-9a-fA-F]+)(?:\s+\*?(?P<name>.+))?")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """The digest of a file's content: `sha256:…`."""

    algorithm: str
    hexadecimal: str

    @classmethod
    def parse(cls, text: str) -> "Digest":
        """Parse `algorithm:hexadecimal`. Raises HostError."""
        algorithm, _, hexadecimal = text.partition(":")
        digits = _HEX_DIGITS.get(algorithm)
        if digits is None:
            raise _invalid(text, f"must begin with one of {', '.join(_HEX_DIGITS)}:")
        hexadecimal = hexadecimal.lower()
        if len(hexadecimal) != digits or not _HEX.fullmatch(hexadecimal):
            raise _invalid(text, f"must have {digits} hexadecimal digits after {algorithm}:")
        return cls(algorithm, hexadecimal)

    @classmethod
    def of(cls, path: Path, algorithm: str = "sha256") -> "Digest":
        """Return the digest of a file. Raises OSError."""
        with path.open("rb") as file:
            return cls(algorithm, hashlib.file_digest(file, algorithm).hexdigest())

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hexadecimal}"


def find_checksum(text: str, name: str) -> Digest | None:
    """Return the digest of a file in the text of a checksum file; None if it is not listed.

    A single digest without a name is that of the file whose checksum file this is.
    """
    bare: list[Digest] = []
    for line in text.splitlines():
        found = _BSD.fullmatch(line.strip()) or _GNU.fullmatch(line.strip())
        if found is None:
            continue
        hexadecimal = found["hex"].lower()
        algorithm = _BY_LENGTH.get(len(hexadecimal))
        if algorithm is None:
            continue
        digest = Digest(algorithm, hexadecimal)
        if found["name"] is None:
            bare.append(digest)
        elif PurePosixPath(found["name"].strip()).name == name:
            return digest
    return bare[0] if len(bare) == 1 else None


def _invalid(text: str, rule: str) -> HostError:
    return HostError(f'digest "{text}" {rule}', reason=FailureReason.INVALID_SOURCE)
