# SPDX-License-Identifier: Apache-2.0
"""Images of docker as files of the cache: the same image gives the same bytes.

docker writes the time of the export into the archive, so its members are written again, sorted
and without times and owners. The layers have their own times, which stay.
"""

import asyncio
import os
import tarfile
from pathlib import Path

from rdd.engine.docker import Docker, quoted_name
from rdd.fetch.cache import Cache, write_errors
from rdd.fetch.digests import Digest
from rdd.fetch.tar_reading import members, open_tar
from rdd.host.errors import HostError
from rdd.host.files import open_new


async def save(socket: Path, reference: str, cache: Cache) -> Digest:
    """Save an image; return the digest of its archive. Raises EngineFailure, HostError."""
    saved = cache.partial(f"image {reference} {os.getpid()}")
    normal = cache.partial(f"image {reference} {os.getpid()} normal")
    try:
        path = f"/images/{quoted_name(reference, safe='/:@')}/get"
        async with Docker(socket) as docker, docker.open("GET", path, {}) as exchange:
            with write_errors(saved), os.fdopen(open_new(saved), "wb") as output:
                async for chunk in exchange.chunks():
                    output.write(chunk)
        await asyncio.to_thread(_normalise, saved, normal)
        digest = await asyncio.to_thread(Digest.of, normal)
        cache.add(normal, digest, location=f"image {reference}")
        return digest
    finally:
        for partial in (saved, normal):
            partial.unlink(missing_ok=True)


def _normalise(source: Path, target: Path) -> None:
    """Write the members of an archive again, sorted, without times and owners. Blocking."""
    try:
        with (
            write_errors(target),
            open_tar(source) as tar,
            os.fdopen(open_new(target), "wb") as file,
            tarfile.open(fileobj=file, mode="w") as output,
        ):
            for member in sorted(members(tar), key=lambda one: one.name):
                member.mtime = member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.pax_headers = {}
                content = tar.extractfile(member) if member.isreg() else None
                output.addfile(member, content)
    except tarfile.TarError as error:
        raise HostError(f"docker exported a damaged archive: {error}") from error
