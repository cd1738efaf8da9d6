# SPDX-License-Identifier: Apache-2.0
"""The image cache: files by the digest of their content, shared by all machines.

Invariant: an entry is complete or missing. A file is renamed into the cache when it is complete
and its digest is verified; incomplete files are in `partial/`. The decompressed form of a file
is stored under the digest of the compressed one. For locations without a digest, `locations/`
records the digest found there and the validators (ETag) that detect a change.

Machines get hard links (a copy on another file system), so an entry may be removed at any time.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.vm.images.location import cache_directory

CHUNK_BYTES = 1 << 20
_EXPANDED = "expanded"  # decompressed files
_ALGORITHMS = ("sha256", "sha384", "sha512")


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a file's content: `sha256:…`."""

    algorithm: str
    hexadecimal: str

    @classmethod
    def parse(cls, text: str) -> "Digest":
        """Parse `algorithm:hexadecimal`. Raises HostError."""
        algorithm, _, hexadecimal = text.partition(":")
        if algorithm not in _ALGORITHMS or not hexadecimal:
            raise HostError(f'digest "{text}" must begin with one of {", ".join(_ALGORITHMS)}:')
        return cls(algorithm, hexadecimal.lower())

    @classmethod
    def of(cls, path: Path, algorithm: str = "sha256") -> "Digest":
        """Return the digest of a file. Raises OSError."""
        with path.open("rb") as file:
            return cls(algorithm, hashlib.file_digest(file, algorithm).hexdigest())

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hexadecimal}"


@dataclass(frozen=True, slots=True)
class LocationRecord:
    """The digest found at a location, and the validators that detect a change."""

    digest: str
    etag: str = ""
    last_modified: str = ""


class ImageCache:
    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of_user(cls, environment: Mapping[str, str], home: Path) -> "ImageCache":
        """Return the cache of this user, shared by all instances of rdd."""
        return cls(cache_directory(environment, home) / "images")

    def path(self, digest: Digest) -> Path:
        """Return the path of the entry with this digest, existing or not."""
        return self.root / digest.algorithm / digest.hexadecimal

    def expanded_path(self, digest: Digest) -> Path:
        """Return the path of its decompressed form, existing or not."""
        return self.root / _EXPANDED / f"{digest.algorithm}-{digest.hexadecimal}"

    def find(self, digest: Digest) -> Path | None:
        """Return the entry with this digest; None if it is missing."""
        path = self.path(digest)
        return path if path.is_file() else None

    def partial(self, key: str) -> Path:
        """Return the path for an incomplete file; a key always has the same path."""
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._make_dir(self.root / "partial") / name

    def add(self, path: Path, digest: Digest) -> Path:
        """Move a complete file from `partial/` into the cache; the caller verified its digest."""
        return self._move(path, self.path(digest))

    def add_expanded(self, path: Path, digest: Digest) -> Path:
        """Move the complete decompressed form of a file into the cache."""
        return self._move(path, self.expanded_path(digest))

    def recorded(self, location: str) -> LocationRecord | None:
        """Return the record of a location; None if its entry is missing."""
        try:
            data = json.loads(read_text(self._location(location)) or "null")
            found = LocationRecord(**data)
            return found if self.find(Digest.parse(found.digest)) else None
        except (TypeError, ValueError, HostError):
            return None  # damaged: like a missing record

    def record_location(self, location: str, found: LocationRecord) -> None:
        """Record what was found at a location. Raises HostError."""
        write_atomically(self._location(location), json.dumps(asdict(found)), durable=False)

    def _location(self, location: str) -> Path:
        name = hashlib.sha256(location.encode()).hexdigest() + ".json"
        return self._make_dir(self.root / "locations") / name

    def _move(self, path: Path, target: Path) -> Path:
        self._make_dir(target.parent)
        with write_errors(target):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # Entries are immutable, also through the hard link of a machine.
            path.chmod(0o444)
            path.replace(target)
        return target

    def _make_dir(self, directory: Path) -> Path:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HostError.from_os(f'create directory "{directory}"', error) from error
        return directory


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise HostError with the name of the file for a failed write."""
    try:
        yield
    except OSError as error:
        raise HostError(f'failed to write "{path}": {error.strerror or error}') from error


def link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a cache entry, or a copy on another file system."""
    with write_errors(target):
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)  # copies within the kernel, sharing blocks if it can
            target.chmod(0o444)
