# SPDX-License-Identifier: Apache-2.0
"""The cache of images: files by the digest of their content, shared by all machines.

A file gets its name in the cache when it is complete and its digest is known; what is on the
way lies in `partial/`. So an entry is whole or not there, whoever writes and however that ends.
Unpacked forms lie beside the packed one under its digest. What was found at a location without
a digest is recorded in `locations/`, with what tells whether it has changed.

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
_EXPANDED = "expanded"  # a packed file, unpacked
_ALGORITHMS = ("sha256", "sha384", "sha512")


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a file's content: `sha256:…`."""

    algorithm: str
    hexadecimal: str

    @classmethod
    def parse(cls, text: str) -> "Digest":
        """Read `algorithm:hexadecimal`. Raises HostError."""
        algorithm, _, hexadecimal = text.partition(":")
        if algorithm not in _ALGORITHMS or not hexadecimal:
            raise HostError(f'digest "{text}" must begin with one of {", ".join(_ALGORITHMS)}:')
        return cls(algorithm, hexadecimal.lower())

    @classmethod
    def of(cls, path: Path, algorithm: str = "sha256") -> "Digest":
        """Read a file. Raises OSError."""
        with path.open("rb") as file:
            return cls(algorithm, hashlib.file_digest(file, algorithm).hexdigest())

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hexadecimal}"


@dataclass(frozen=True, slots=True)
class LocationRecord:
    """What was found at a location, and how to tell whether it is still the same."""

    digest: str
    etag: str = ""
    last_modified: str = ""


class ImageCache:
    """The cache in one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of_user(cls, environment: Mapping[str, str], home: Path) -> "ImageCache":
        """The cache of this user, shared by all instances of rdd."""
        return cls(cache_directory(environment, home) / "images")

    def path(self, digest: Digest) -> Path:
        """Where the file with this digest is, or would be."""
        return self.root / digest.algorithm / digest.hexadecimal

    def expanded_path(self, digest: Digest) -> Path:
        """Where the unpacked form of that file is, or would be."""
        return self.root / _EXPANDED / f"{digest.algorithm}-{digest.hexadecimal}"

    def find(self, digest: Digest) -> Path | None:
        """The file with this digest, if it is here."""
        path = self.path(digest)
        return path if path.is_file() else None

    def partial(self, key: str) -> Path:
        """A place for a file on its way here; the same for the same key."""
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._made(self.root / "partial") / name

    def add(self, path: Path, digest: Digest) -> Path:
        """Take a complete file from `partial/`; its content MUST have this digest."""
        return self._adopt(path, self.path(digest))

    def add_expanded(self, path: Path, digest: Digest) -> Path:
        """Take the complete unpacked form of a file."""
        return self._adopt(path, self.expanded_path(digest))

    def recorded(self, location: str) -> LocationRecord | None:
        """What was found at a location, if that is still here."""
        try:
            data = json.loads(read_text(self._location(location)) or "null")
            found = LocationRecord(**data)
            return found if self.find(Digest.parse(found.digest)) else None
        except (TypeError, ValueError, HostError):
            return None  # damaged: as if it had never been seen

    def record_location(self, location: str, found: LocationRecord) -> None:
        """Keep what was found at a location. Raises HostError."""
        write_atomically(self._location(location), json.dumps(asdict(found)), durable=False)

    def _location(self, location: str) -> Path:
        name = hashlib.sha256(location.encode()).hexdigest() + ".json"
        return self._made(self.root / "locations") / name

    def _adopt(self, path: Path, target: Path) -> Path:
        self._made(target.parent)
        with written(target):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # Nobody writes to an entry any more, not even through a machine's link to it.
            path.chmod(0o444)
            path.replace(target)
        return target

    def _made(self, directory: Path) -> Path:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HostError.from_os(f'create directory "{directory}"', error) from error
        return directory


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """Tell of a failed write with the name of the file and what to do."""
    try:
        yield
    except OSError as error:
        raise HostError(f'failed to write "{path}": {error.strerror or error}') from error


def link_or_copy(source: Path, target: Path) -> None:
    """Give a machine a file of the cache: a hard link, or a copy on another file system."""
    with written(target):
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)  # copies within the kernel, sharing blocks if it can
            target.chmod(0o444)
