# SPDX-License-Identifier: Apache-2.0
"""Archives of images, compressed or not, loaded into docker if one of their images is missing.

k3s runs its containers in docker with the engine moby (`--docker`), which has no directory of
archives like that of k3s: the images of the cluster itself must be in docker's store, where those
that the user builds are, too.
"""

import asyncio
import json
import tarfile
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any, Final

from rdd.engine.docker import Docker
from rdd.engine.errors import EngineError
from rdd.fetch.expansion import opened
from rdd.fetch.tar_reading import members, open_tar, read_member, tar_errors
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically

_CHUNK_BYTES: Final = 1 << 20
_MANIFEST: Final = "manifest.json"
_MANIFEST_BYTES: Final = 4 << 20


async def load_images(archive: Path, socket: Path, names: Collection[str] | None = None) -> int:
    """Load an archive of images unless docker has all of them; return how many were missing.

    `names` are those of its images; without them they are read from the archive.
    Raises HostError, EngineFailure.
    """
    wanted = await asyncio.to_thread(_names, archive) if names is None else set(names)
    async with Docker(socket) as docker:
        present = {tag for image in await docker.images() for tag in image.get("RepoTags") or ()}
        missing = wanted - present
        if missing:
            pieces = _pieces(archive)
            async with docker.upload("POST", "/images/load", {"quiet": "1"}, pieces) as exchange:
                _check(await exchange.read())
    return len(missing)


def _check(report: bytes) -> None:
    """Raise EngineError if the response of docker ends with an error."""
    for line in report.splitlines():
        try:
            found: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("error"):
            raise EngineError.of(200, str(found["error"]))


def _names(archive: Path) -> set[str]:
    """Return the names of the images in an archive; remembered beside it, it is large."""
    record = archive.with_name(f"{archive.name}.names")
    try:
        found = json.loads(read_text(record) or "null")
        if isinstance(found, list):
            return {str(name) for name in found}
    except ValueError:
        pass  # damaged: read the archive again
    names = sorted(_read_names(archive))
    write_atomically(record, json.dumps(names), durable=False)
    return set(names)


def _read_names(archive: Path) -> set[str]:
    try:
        with tar_errors(), opened(archive) as stream, open_tar(stream, "r|") as tar:
            for member in members(tar):
                if member.name != _MANIFEST or not member.isreg():
                    continue
                content = read_member(tar, member, _MANIFEST_BYTES)
                found = {str(name) for one in json.loads(content) for name in one["RepoTags"] or ()}
                while stream.read(_CHUNK_BYTES):  # a decompressor must not be cut off
                    pass
                return found
    except tarfile.TarError as error:
        raise HostError(f'"{archive}" is not an archive of images, or damaged: {error}') from error
    except OSError as error:
        raise HostError.from_os(f'read the archive of images "{archive}"', error) from error
    raise HostError(f'"{archive}" is not an archive of images: it has no {_MANIFEST}')


async def _pieces(archive: Path) -> AsyncIterator[bytes]:
    with opened(archive) as stream:
        while piece := await asyncio.to_thread(stream.read, _CHUNK_BYTES):
            yield piece
