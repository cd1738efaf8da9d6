# SPDX-License-Identifier: Apache-2.0
"""Packages: files of the cache with what they are, as one file or a directory, signed.

    manifest.json      the files, their use, and settings; canonical
    manifest.sig       its signature (`signing`); absent if the package is unsigned
    sha256/<digest>    the files

As a file it is an uncompressed tar archive with the members in this order. The same content
gives the same bytes: no times, no owners, sorted. A reader trusts the signature of the manifest
and nothing else: it is verified before any file is read, and each file has its digest in it.
"""

import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from rdd.fetch.cache import Cache, write_errors
from rdd.fetch.digests import Digest
from rdd.fetch.signing import SignedBy, SigningKey
from rdd.fetch.tar_reading import next_member, open_tar, read_member
from rdd.fetch.transport import archive_member, copy_into_cache, member_name
from rdd.host.errors import FailureReason, HostError
from rdd.host.files import open_new, replace

FORMAT: Final = 1
_MANIFEST, _SIGNATURE = "manifest.json", "manifest.sig"
_MANIFEST_BYTES: Final = 16 << 20
_SIGNATURE_BYTES: Final = 64 << 10
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_PLATFORM: Final = re.compile(r"[a-z0-9]{1,32}/[a-z0-9]{1,32}")

Content = Literal["tool", "images"]


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """One file of a package."""

    digest: Digest
    size: int
    platform: str
    """The platform that it is for, such as `linux/amd64`."""
    content: Content
    """`tool`: a file of a tool; `images`: an archive of container images."""
    tool: str = ""
    version: str = ""
    url: str = ""
    """The publisher's URL of a tool's file."""
    references: tuple[str, ...] = ()
    """The names of the images in an archive."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a package contains."""

    files: tuple[PackagedFile, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the App, as its spec has them."""

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(sorted({file.platform for file in self.files}))

    def encode(self) -> bytes:
        """Return the canonical form."""
        ordered = sorted(self.files, key=lambda one: (one.platform, one.digest, one.url))
        data = {
            "format": FORMAT,
            "files": [_encoded(file) for file in ordered],
            "settings": self.settings,
        }
        return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes, name: str) -> "Manifest":
        """Parse and check a manifest. Raises HostError."""
        try:
            data = json.loads(content)
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']}, supported is {FORMAT}")
            settings = data["settings"]
            if not isinstance(settings, dict):
                raise ValueError("the settings are not an object")
            return cls(tuple(_decoded(one) for one in data["files"]), settings)
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError, HostError
        ) as error:  # fmt: skip
            raise _invalid(name, f"{_MANIFEST} is not valid: {error}") from error


def check_target(target: Path) -> None:
    """Raise HostError unless a package can be written there; before anything is fetched."""
    if not target.parent.is_dir():
        raise HostError(f'there is no directory "{target.parent}"')
    with write_errors(target):
        if target.is_dir() and any(target.iterdir()):
            raise HostError(f'"{target}" is not empty')


def write_package(manifest: Manifest, cache: Cache, target: Path, key: SigningKey | None) -> None:
    """Write a package: a directory if the target is one, else a file. Blocking.

    Its files must be in the cache. Raises HostError.
    """
    content = manifest.encode()
    check_target(target)
    heads = {_MANIFEST: content}
    if key is not None:
        heads[_SIGNATURE] = key.sign(content)
    digests = sorted({file.digest for file in manifest.files})
    if target.is_dir():
        _write_directory(heads, digests, cache, target)
        return
    partial = target.parent / f".{target.name}.{os.getpid()}.part"
    with write_errors(target):
        try:
            with (
                os.fdopen(open_new(partial, 0o644), "wb") as file,
                tarfile.open(fileobj=file, mode="w") as tar,
            ):
                for name, data in heads.items():
                    tar.addfile(archive_member(name, len(data)), io.BytesIO(data))
                for digest in digests:
                    with cache.path(digest).open("rb") as source:
                        size = os.fstat(source.fileno()).st_size
                        tar.addfile(archive_member(member_name(digest), size), source)
                tar.members.clear()  # type: ignore[attr-defined]
                file.flush()
                os.fsync(file.fileno())
            replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


def _write_directory(
    heads: Mapping[str, bytes], digests: Sequence[Digest], cache: Cache, target: Path
) -> None:
    from rdd.fetch.checkout import copy

    with write_errors(target):
        for digest in digests:
            path = target / member_name(digest)
            path.parent.mkdir(exist_ok=True)
            copy(cache.path(digest), path)
        for name, data in reversed(list(heads.items())):  # the manifest last: then it is complete
            with os.fdopen(open_new(target / name, 0o644), "wb") as file:
                file.write(data)


class Package:
    """An open package whose manifest is verified; the files are not read yet."""

    def __init__(self, source: "_Source", path: Path) -> None:
        self._source = source
        self._path = path
        content = source.read(_MANIFEST, _MANIFEST_BYTES)
        if content is None:
            raise _invalid(path, f"it does not begin with {_MANIFEST}")
        signature = source.read(_SIGNATURE, _SIGNATURE_BYTES)
        self.signed_by = SignedBy.of(signature, content, str(path)) if signature else None
        """The key of its valid signature; None if it is unsigned."""
        self.manifest = Manifest.decode(content, str(path))

    def add_to(self, cache: Cache, platform: str) -> list[PackagedFile]:
        """Add the files of a platform to the cache; return them. Blocking. Raises HostError.

        Files before a damaged one stay in the cache: each is verified by itself.
        """
        wanted = [file for file in self.manifest.files if file.platform == platform]
        missing = {member_name(file.digest): file for file in wanted}
        known = {member_name(file.digest) for file in self.manifest.files}
        for name, content in self._source.members(tuple(missing)):
            if name not in known:
                raise _invalid(self._path, f'"{name}" is not a file of its manifest')
            file = missing.pop(name, None)
            if file is not None and cache.find(file.digest) is None:
                with content() as stream:
                    copy_into_cache(cache, stream, file.digest, name, file.url)
        if missing:
            raise _invalid(self._path, f"{len(missing)} of its files are missing")
        return wanted


@contextmanager
def opened_package(path: Path) -> Iterator[Package]:
    """Open a package and verify its manifest. Blocking. Raises HostError."""
    try:
        if path.is_dir():
            yield Package(_Directory(path), path)
            return
        with open_tar(path) as tar:
            yield Package(_Archive(tar, path), path)
    except (tarfile.TarError, EOFError) as error:
        raise _invalid(path, str(error)) from error
    except OSError as error:
        raise HostError.from_os(f'read "{path}"', error) from error


class _Archive:
    def __init__(self, tar: tarfile.TarFile, path: Path) -> None:
        self._tar = tar
        self._path = path
        self._next: tarfile.TarInfo | None = None

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the next member if it has this name."""
        member = self._next or next_member(self._tar)
        self._next = member
        if member is None or member.name != name or not member.isreg():
            return None
        self._next = None
        return read_member(self._tar, member, limit)

    def members(self, _: Sequence[str]) -> Iterator[tuple[str, Any]]:
        while (member := self._next or next_member(self._tar)) is not None:
            self._next = None
            if not member.isreg():
                raise _invalid(self._path, f'"{member.name}" is not a file')
            yield member.name, lambda member=member: self._tar.extractfile(member)


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str, limit: int) -> bytes | None:
        try:
            with self._opened(name) as file:
                content = file.read(limit + 1)
        except FileNotFoundError:
            return None
        if len(content) > limit:
            raise _invalid(self._path, f"{name} is larger than {limit} bytes")
        return content

    def members(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for name in names:
            if (self._path / name).exists():
                yield name, lambda name=name: self._opened(name)

    def _opened(self, name: str) -> IO[bytes]:
        """Open a file; neither a link nor a device, whose reading may not end."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path / name, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _invalid(self._path, f'"{name}" is not a file')
        return os.fdopen(descriptor, "rb")


_Source = _Archive | _Directory


def _encoded(file: PackagedFile) -> dict[str, Any]:
    found: dict[str, Any] = {
        "digest": str(file.digest),
        "size": file.size,
        "platform": file.platform,
        "content": file.content,
    }
    if file.content == "tool":
        found |= {"tool": file.tool, "version": file.version, "url": file.url}
    else:
        found["references"] = list(file.references)
    return found


def _decoded(data: Mapping[str, Any]) -> PackagedFile:
    content, platform = data["content"], data["platform"]
    if content not in ("tool", "images"):
        raise ValueError(f'the content "{content}" is unknown; a newer rdd may have created it')
    if not _PLATFORM.fullmatch(platform):
        raise ValueError(f'"{platform}" is not a platform')
    size = data["size"]
    if type(size) is not int or size < 0:
        raise ValueError(f"{size!r} is not a size")
    common: dict[str, Any] = {
        "digest": Digest.parse(data["digest"]),
        "size": size,
        "platform": platform,
        "content": content,
    }
    if content == "images":
        return PackagedFile(**common, references=tuple(map(str, data["references"])))
    for name in ("tool", "version"):
        if not _NAME.fullmatch(data[name]):
            raise ValueError(f'"{data[name]}" is not a {name}')
    return PackagedFile(**common, tool=data["tool"], version=data["version"], url=str(data["url"]))


def _invalid(path: Path | str, problem: str) -> HostError:
    return HostError(
        f'"{path}" is not a package, or damaged: {problem}', reason=FailureReason.INVALID_SOURCE
    )
