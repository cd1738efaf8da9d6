# SPDX-License-Identifier: Apache-2.0
"""Entries of the cache as one file, for a machine without a network.

An uncompressed tar archive: `manifest.json`, then one member per entry, named by its digest. It
is reproducible (sorted, without owners and times). An import verifies digests and nothing else:
each member is hashed while it is copied, and enters the cache only if its name is right.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

from rdd.fetch.cache import Cache, Entry, write_errors
from rdd.fetch.digests import Digest
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.tar_reading import members, next_member, open_tar, read_member
from rdd.host.errors import HostError
from rdd.host.files import open_new, replace

_FORMAT = 1
_MANIFEST = "manifest.json"
_MANIFEST_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20


def export_entries(entries: Iterable[Entry], target: Path) -> int:
    """Write entries to an archive; return their number. Blocking. Raises HostError."""
    listed = sorted(entries, key=lambda entry: entry.digest)
    manifest = {
        "format": _FORMAT,
        "files": [
            {
                "digest": str(entry.digest),
                "size": entry.path.stat().st_size,
                "location": entry.location,
            }
            for entry in listed
        ],
    }
    partial = target.parent / f".{target.name}.{os.getpid()}.part"
    with write_errors(target):
        try:
            with (
                os.fdopen(open_new(partial), "wb") as file,
                tarfile.open(fileobj=file, mode="w") as tar,
            ):
                data = (json.dumps(manifest, indent=1) + "\n").encode()
                tar.addfile(archive_member(_MANIFEST, len(data)), io.BytesIO(data))
                for entry in listed:
                    with entry.path.open("rb") as content:
                        size = os.fstat(content.fileno()).st_size
                        tar.addfile(archive_member(member_name(entry.digest), size), content)
            replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    return len(listed)


def import_entries(cache: Cache, source: Path) -> list[Digest]:
    """Add the entries of an archive; return their digests. Blocking. Raises HostError.

    Entries before a damaged one stay: each is verified by itself.
    """
    added: list[Digest] = []
    try:
        with open_tar(source) as tar:
            locations = _read_manifest(tar, source)
            listed = {member_name(digest): digest for digest in locations}
            for member in members(tar):
                if member.name not in listed or not member.isreg():
                    raise _damaged(source, f'"{member.name}" is not a file of its manifest')
                digest = listed[member.name]
                if not cache.find(digest):
                    content = cast(IO[bytes], tar.extractfile(member))
                    copy_into_cache(cache, content, digest, member.name, locations[digest])
                added.append(digest)
    except tarfile.TarError as error:
        raise _damaged(source, str(error)) from error
    except OSError as error:
        raise HostError.from_os(f'read "{source}"', error) from error
    if missing := locations.keys() - set(added):
        raise _damaged(source, f"{len(missing)} of its files are missing")
    return added


def _read_manifest(tar: tarfile.TarFile, source: Path) -> dict[Digest, str]:
    first = next_member(tar)
    if first is None or first.name != _MANIFEST:
        raise _damaged(source, f"it does not begin with {_MANIFEST}")
    content = read_member(tar, first, _MANIFEST_BYTES)
    try:
        manifest = json.loads(content)
        if manifest["format"] != _FORMAT:
            raise _damaged(source, f"its format is {manifest['format']}, supported is {_FORMAT}")
        return {Digest.parse(one["digest"]): str(one["location"]) for one in manifest["files"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(source, f"{_MANIFEST} is not valid: {error}") from error


def copy_into_cache(
    cache: Cache, content: IO[bytes], digest: Digest, name: str, location: str
) -> None:
    """Add a stream to the cache if it has a digest; `name` is for messages. Raises HostError."""
    partial = cache.partial(f"import {digest} {os.getpid()}")
    hashed = hashlib.new(digest.algorithm)
    try:
        with write_errors(partial), os.fdopen(open_new(partial), "wb") as output:
            while data := content.read(_CHUNK_BYTES):
                hashed.update(data)
                output.write(data)
        if hashed.hexdigest() != digest.hexadecimal:
            raise FetchError(
                f'"{name}" does not have the digest of its name; it was not imported',
                FetchFailure.CHECKSUM_MISMATCH,
            )
        cache.add(partial, digest, location=location)
    finally:
        partial.unlink(missing_ok=True)


def member_name(digest: Digest) -> str:
    """Return the name of a file in an archive."""
    return f"{digest.algorithm}/{digest.hexadecimal}"


def archive_member(name: str, size: int) -> tarfile.TarInfo:
    """Return the header of a member: the same for the same content."""
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o444
    return member


def _damaged(source: Path, problem: str) -> HostError:
    return HostError(f'"{source}" is not an archive of the cache, or damaged: {problem}')
