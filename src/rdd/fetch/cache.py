# SPDX-License-Identifier: Apache-2.0
"""The cache: files by the digest of their content, shared by all instances of a user.

    files/<algorithm>/<digest>      complete, verified, read-only files
    files/expanded/                 decompressed disk images, by the digest of the compressed file
    files/partial/                  incomplete downloads and their locks
    files/records/                  where an entry came from; its time is that of the last use
    files/locations/                the digest found at a location without one, and its validators
    files/verified/                 the digests of URLs whose signature was verified
    files/keys/                     the public keys of publishers, as they were first read
    files/pins/<entry>/<owner>      who uses the cached file itself, not a copy

Invariant: an entry is complete or missing. A file is renamed into the cache when it is complete
and its digest is verified. Machines get hard links (a copy on another file system), so that
removing an entry takes nothing from them; whoever uses the path of an entry pins it.
"""

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rdd.fetch.digests import Digest
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.host.user_cache import cache_directory

_FILES = "files"
_FORMER_NAME = "images"  # up to 0.1, when the cache had guest images only
_EXPANDED = "expanded"  # decompressed files


@dataclass(frozen=True, slots=True)
class LocationRecord:
    """The digest found at a location, and the validators that detect a change."""

    digest: str
    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One complete file of the cache."""

    digest: Digest
    path: Path
    size_bytes: int
    """Disk space, the decompressed form included."""
    location: str
    """Where it came from; empty if unknown."""
    used_at: float
    """Time of the last use (seconds since the epoch)."""
    pins: tuple[str, ...]
    """Who uses the file itself."""
    is_linked: bool
    """A machine has a hard link: removing the entry would not free its space."""


class Cache:
    """The cache of one user."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of_user(cls, environment: Mapping[str, str], home: Path) -> "Cache":
        """Return the cache of this user, shared by all instances of rdd."""
        directory = cache_directory(environment, home)
        root = directory / _FILES
        former = directory / _FORMER_NAME
        if former.is_dir() and not root.exists():
            with contextlib.suppress(OSError):  # another process may do the same
                former.rename(root)
        return cls(root)

    def path(self, digest: Digest) -> Path:
        """Return the path of the entry with this digest, existing or not."""
        return self.root / digest.algorithm / digest.hexadecimal

    def expanded_path(self, digest: Digest) -> Path:
        """Return the path of its decompressed form, existing or not."""
        return self.root / _EXPANDED / _name(digest)

    def find(self, digest: Digest) -> Path | None:
        """Return the entry with this digest; None if it is missing."""
        path = self.path(digest)
        if not path.is_file():
            return None
        with contextlib.suppress(OSError):  # a read-only cache can be used, too
            os.utime(self._record(digest))
        return path

    def partial(self, key: str) -> Path:
        """Return the path for an incomplete file; a key always has the same path."""
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._make_dir(self.root / "partial") / name

    def add(self, path: Path, digest: Digest, *, location: str = "") -> Path:
        """Move a complete file from `partial/` into the cache; the caller verified its digest."""
        target = self._move(path, self.path(digest))
        self._make_dir(self._record(digest).parent)
        record = json.dumps({"location": location})
        write_atomically(self._record(digest), record, durable=False)
        return target

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

    def verified(self, url: str) -> Digest | None:
        """Return the digest of a URL whose signature was verified; None if there is none."""
        try:
            return Digest.parse(json.loads(read_text(self._verified(url)) or "{}")["digest"])
        except (KeyError, TypeError, ValueError, AttributeError, HostError):
            return None  # damaged: like a missing record

    def record_verified(self, url: str, digest: Digest) -> None:
        """Record a digest, signed by the publisher or in a trusted package. Raises HostError."""
        self._make_dir(self._verified(url).parent)
        write_atomically(self._verified(url), json.dumps({"digest": str(digest)}), durable=False)

    def key_path(self, url: str) -> Path:
        """Return the path of the public key that was read from a URL, existing or not."""
        return self.root / "keys" / (hashlib.sha256(url.encode()).hexdigest() + ".key")

    def pin(self, digest: Digest, owner: str) -> None:
        """Keep an entry until `owner` unpins it. Raises HostError."""
        directory = self._make_dir(self.root / "pins" / _name(digest))
        write_atomically(directory / owner, "", durable=False)

    def unpin(self, digest: Digest, owner: str) -> None:
        """Remove the pin of `owner`, if there is one."""
        directory = self.root / "pins" / _name(digest)
        with contextlib.suppress(OSError):
            (directory / owner).unlink(missing_ok=True)
            directory.rmdir()

    def unpin_all(self, owner: str) -> None:
        """Remove all pins of `owner`. Blocking."""
        for path in (self.root / "pins").glob(f"*/{glob.escape(owner)}"):
            algorithm, _, hexadecimal = path.parent.name.partition("-")
            self.unpin(Digest(algorithm, hexadecimal), owner)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries. Blocking."""
        for path in sorted(self.root.glob("sha*/*")):
            try:
                digest = Digest.parse(f"{path.parent.name}:{path.name}")
                yield self._entry(digest, path)
            except (HostError, FileNotFoundError):
                continue  # not of ours, or removed meanwhile

    def remove(self, digest: Digest) -> None:
        """Remove an entry with its decompressed form and its record. Raises HostError."""
        for path in (self.path(digest), self.expanded_path(digest), self._record(digest)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise HostError.from_os(f'remove "{path}"', error) from error

    def partial_files(self) -> list[Path]:
        """Return the files of incomplete downloads."""
        return sorted(self.root.glob("partial/*"))

    def _entry(self, digest: Digest, path: Path) -> Entry:
        status = path.stat()
        size, is_linked, used_at = status.st_blocks * 512, status.st_nlink > 1, status.st_mtime
        with contextlib.suppress(FileNotFoundError):
            expanded = self.expanded_path(digest).stat()
            size += expanded.st_blocks * 512
            is_linked = is_linked or expanded.st_nlink > 1
        location = ""
        record = self._record(digest)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            location = str(json.loads(record.read_text()).get("location", ""))
            used_at = record.stat().st_mtime
        pins = tuple(sorted(one.name for one in (self.root / "pins" / _name(digest)).glob("*")))
        return Entry(digest, path, size, location, used_at, pins, is_linked)

    def _record(self, digest: Digest) -> Path:
        return self.root / "records" / f"{_name(digest)}.json"

    def _location(self, location: str) -> Path:
        name = hashlib.sha256(location.encode()).hexdigest() + ".json"
        return self._make_dir(self.root / "locations") / name

    def _verified(self, url: str) -> Path:
        return self.root / "verified" / (hashlib.sha256(url.encode()).hexdigest() + ".json")

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


def _name(digest: Digest) -> str:
    return f"{digest.algorithm}-{digest.hexadecimal}"


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise HostError with the name of the file for a failed write."""
    try:
        yield
    except OSError as error:
        raise HostError.from_os(f'write "{path}"', error) from error
