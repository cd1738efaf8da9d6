# SPDX-License-Identifier: Apache-2.0
"""`rdd volume backup` and `rdd volume restore`: a volume as a tar file, with owners and times.

The engine packs and unpacks, inside of its machine, so this is the same for every type. A backup
gets its name when it is complete. A restore reads the whole file first and, unless it is to
overwrite files, creates the volume, which it removes if it fails.
"""

import asyncio
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.engine.objects import engine_problem
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import Progress, shown
from rdd.cli.framework.types import Call
from rdd.fetch.tar_reading import members, open_tar, tar_errors

_PIECE_BYTES = 1 << 20


def run(call: Call) -> int:
    from rdd.engine import EngineFailure

    volume, path = call.args[0], Path(call.args[1]).absolute()
    if call.path[-1] == "restore":
        _check_archive(path)
    elif path.exists():
        raise CommandError(f"{quote(str(path))} exists; choose another name or remove it")
    _check_engine(call)
    action = _restore if call.path[-1] == "restore" else _back_up
    with shown(call) as progress:
        progress.phase(f"volume {volume}")
        try:
            asyncio.run(action(call, volume, path, progress))
        except EngineFailure as error:
            raise CommandError(f"volume {quote(volume)}: {error}") from error
        except OSError as error:
            raise CommandError(f"{quote(str(path))}: {error.strerror or error}") from error
    done = "restored from" if call.path[-1] == "restore" else "saved to"
    call.log.info(f"volume {quote(volume)} has been {done} {quote(str(path))}")
    return 0


def _check_engine(call: Call) -> None:
    with connected(call, creates=False) as connection:
        if problem := engine_problem(connection):
            raise CommandError(problem)
        app = get_or_none(connection, APP) or {}
    engine = ((app.get("spec") or {}).get("containerEngine") or {}).get("name", "moby")
    if engine != "moby":
        raise CommandError(f"the engine {engine} has no volumes; the engine moby has")


async def _back_up(call: Call, volume: str, path: Path, progress: Progress) -> None:
    from rdd.engine import Docker, files

    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        async with (
            Docker(call.instance.docker_socket) as docker,
            files.of_volume(docker, volume) as place,
            files.download(docker, place, "/", as_tar=True) as found,
        ):
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                size = 0
                async for piece in found.pieces:
                    await asyncio.to_thread(file.write, piece)
                    size += len(piece)
                    progress.detail(binary(size))
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
        await asyncio.to_thread(_check_archive, partial)
        await asyncio.to_thread(os.link, partial, path)  # fails if it exists now
    finally:
        partial.unlink(missing_ok=True)


async def _restore(call: Call, volume: str, path: Path, progress: Progress) -> None:
    from rdd.engine import Docker, EngineFailure, EngineNotFound, files

    async with Docker(call.instance.docker_socket) as docker:
        try:
            await docker.inspect_volume(volume)
            exists = True
        except EngineNotFound:
            exists = False
        if exists and not call.flags.truth("overwrite"):
            raise CommandError(
                f"there is a volume {quote(volume)} already; restore into another one, or use "
                "--overwrite, which replaces its files of the same names and keeps the others"
            )
        if not exists:
            await docker.create_volume(name=volume)
        try:
            async with files.of_volume(docker, volume, is_written=True) as place:
                with path.open("rb") as file:
                    await files.restore(docker, place, _pieces(file, progress))
        except BaseException:
            if not exists:
                with suppress(EngineFailure):
                    await docker.remove_volume(volume)
            raise


async def _pieces(file: IO[bytes], progress: Progress) -> AsyncIterator[bytes]:
    size, total = 0, os.fstat(file.fileno()).st_size
    while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
        yield piece
        size += len(piece)
        progress.detail(f"{100 * size // max(total, size)} %, {binary(size)} of {binary(total)}")


def _check_archive(path: Path) -> None:
    """Raise CommandError unless a file is a complete tar, plain or compressed."""
    try:
        with tar_errors(), open_tar(path, "r:*") as archive:
            for member in members(archive):
                if member.name.startswith("/") or ".." in Path(member.name).parts:
                    raise CommandError(
                        f"{quote(str(path))} is refused: {quote(member.name)} is outside of the "
                        "volume; nothing was changed"
                    )
            file = archive.fileobj
            assert file is not None
            file.seek(archive.offset)
            if not file.read(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("unexpected end of data")
            while file.read(_PIECE_BYTES):  # the checksum of a compressed one is at its end
                pass
    except (tarfile.TarError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            what = f"failed to read {quote(str(path))}: {error.strerror}"
        else:
            what = f"{quote(str(path))} is no complete tar archive: {error}"
        raise CommandError(f"{what}; nothing was changed") from error
