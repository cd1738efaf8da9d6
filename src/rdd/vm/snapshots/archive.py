# SPDX-License-Identifier: Apache-2.0
"""Archives of snapshots, for other computers.

A tar file with two members:

    rdd-snapshot.json    format, manifest, compression, size and SHA-256 of the content
    content.tar.zst      the files, or content.tar.gz where zstd is not installed

The first is written last, into its reserved place, because the digest is not known before. GNU tar
packs and unpacks the content, with owners, extended attributes and holes; sockets, which tar cannot
store, are in the header.

An archive is not trusted. Its digest is verified before anything is unpacked, then every member is
checked: no absolute path, no `..`, nothing below a symbolic link, nothing unknown to the manifest,
not more than it announces. Only then it is unpacked, into a directory that is no snapshot yet.
"""

import hashlib
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from rdd.fetch.tar_reading import members, next_member, open_tar, read_member
from rdd.host.errors import HostError
from rdd.host.spawn import popen
from rdd.host.tree_copy import as_owner, failure, run_program_blocking
from rdd.vm.snapshots.manifest import FILE, FORMAT, Manifest
from rdd.vm.snapshots.store import DATABASE_DIR, INDEX_DIR, MACHINES_DIR, OBJECTS_FILE

HEADER = "rdd-snapshot.json"
_CONTENT = "content.tar"
_SUFFIXES = {"zstd": "zst", "gzip": "gz"}
_CHUNK_BYTES = 1 << 20
_HEADER_LIMIT = 64 << 20
_MAX_ID, _MAX_NS = (1 << 32) - 2, (1 << 63) - 1
_SLACK_BYTES = 64 << 20  # headers of tar beyond the size of the files
_PACK = ("tar", "--create", "--file=-", "--sparse", "--xattrs", "--xattrs-include=*",
         "--numeric-owner", "--format=posix", "--sort=name")  # fmt: skip
_UNPACK = ("tar", "--extract", "--file=-", "--xattrs", "--xattrs-include=*", "--numeric-owner",
           "--same-owner", "--same-permissions", "--delay-directory-restore")  # fmt: skip

Report = Callable[[int], None]


def write(directory: Path, manifest: Manifest, target: Path, *, report: Report) -> None:
    """Write the archive of a snapshot whose content is in a directory. Blocking.

    Raises HostError, also if the target exists; nothing incomplete gets its name.
    """
    kind = "zstd" if shutil.which("zstd") else "gzip"
    partial = target.parent / f".{target.name}.{os.getpid()}.partial"
    try:
        with _reported(f'write "{target}"'):
            if target.exists():
                raise HostError(f'"{target}" exists; choose another name or remove it')
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w+b") as file:
                _write(directory, manifest, file, kind, report)
                file.flush()
                os.fsync(file.fileno())
            os.link(partial, target)  # fails if the target exists now
    finally:
        partial.unlink(missing_ok=True)


def _write(directory: Path, manifest: Manifest, file: IO[bytes], kind: str, report: Report) -> None:
    sockets = list(_sockets(directory))
    header = _header(manifest, kind, sockets, "0" * 64, 0)
    name = f"{_CONTENT}.{_SUFFIXES[kind]}"
    start = len(_member(HEADER, len(header))) + _padded(len(header)) + len(_member(name, 0))
    file.seek(start)
    digest, size = hashlib.sha256(), 0
    for chunk in _packed(directory, kind):
        digest.update(chunk)
        file.write(chunk)
        size += len(chunk)
        report(size)
    file.write(bytes(_padded(size) - size + 2 * tarfile.BLOCKSIZE))
    header = _header(manifest, kind, sockets, digest.hexdigest(), size)
    file.seek(0)
    file.write(_member(HEADER, len(header)) + header)
    file.write(bytes(_padded(len(header)) - len(header)) + _member(name, size))


def _header(
    manifest: Manifest, kind: str, sockets: list[dict[str, Any]], digest: str, size: int
) -> bytes:
    """Return the first member; its length does not depend on digest and size."""
    data = {
        "format": FORMAT,
        "compression": kind,
        "sha256": digest,
        "contentBytes": f"{size:020}",
        "sockets": sockets,
        "manifest": asdict(manifest),
    }
    return (json.dumps(data, indent=1) + "\n").encode()


def _member(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _packed(directory: Path, kind: str) -> Iterator[bytes]:
    left_out = [f"--exclude=./{name}" for name in (FILE, INDEX_DIR)]
    command = as_owner(*_PACK, f"--directory={directory}", *left_out, ".")
    compress = ("zstd", "-T0", "-q", "-c") if kind == "zstd" else ("gzip", "-c")
    with _started(command, title=f'pack "{directory}"') as packing:
        assert packing.stdout is not None
        title = f"compress with {kind}"
        with _started(compress, title=title, stdin=packing.stdout) as compressing:
            packing.stdout.close()
            assert compressing.stdout is not None
            while chunk := compressing.stdout.read(_CHUNK_BYTES):
                yield chunk


def _sockets(directory: Path) -> Iterator[dict[str, Any]]:
    for parent, _, files in os.walk(directory):
        for file in files:
            path = Path(parent, file)
            with suppress(OSError):
                found = path.lstat()
                if stat.S_ISSOCK(found.st_mode):
                    yield {
                        "path": str(path.relative_to(directory)),
                        "mode": stat.S_IMODE(found.st_mode),
                        "uid": found.st_uid,
                        "gid": found.st_gid,
                        "mtimeNs": found.st_mtime_ns,
                    }


class Archive:
    """An archive that is read. Raises HostError if it is none, or of a newer version."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _reported(f'read "{path}"'):
            try:
                with open_tar(path) as outer:
                    first = next_member(outer)
                    if first is None or first.name != HEADER:
                        raise HostError(f'"{path}" is not a snapshot of rdd')
                    data = json.loads(read_member(outer, first, _HEADER_LIMIT))
                    second = next_member(outer)
            except (tarfile.TarError, ValueError, RecursionError) as error:
                raise HostError(f'"{path}" is not a snapshot of rdd: {error}') from error
        if not isinstance(data, dict):
            raise HostError(f'"{path}" is damaged: its header is no object')
        if isinstance(data.get("format"), int) and data["format"] > FORMAT:
            raise HostError(
                f'"{path}" has the format {data["format"]} of a newer rdd; this one reads up to '
                f"{FORMAT}: update rdd"
            )
        self.manifest = Manifest.parse(json.dumps(data.get("manifest")), f'"{path}"')
        try:
            self._kind = str(data["compression"])
            self._digest = str(data["sha256"])
            self._size = int(data["contentBytes"])
            self._sockets = [_Socket(one) for one in data["sockets"]]
        except (KeyError, TypeError, ValueError) as error:
            raise HostError(f'"{path}" is damaged: {error}') from error
        name = f"{_CONTENT}.{_SUFFIXES.get(self._kind, '')}"
        if second is None or second.name != name or second.size != self._size:
            raise HostError(f'"{path}" is incomplete: its content is missing or has another size')
        self._offset = second.offset_data

    def verify(self) -> None:
        """Read all of it. Raises HostError if it was changed or would write elsewhere. Blocking."""
        digest, size = hashlib.sha256(), 0
        for chunk in self._chunks():
            digest.update(chunk)
            size += len(chunk)
        if size != self._size or digest.hexdigest() != self._digest:
            raise HostError(
                f'"{self._path}" was changed or is incomplete: its content has another SHA-256 '
                "than its header; nothing was imported"
            )
        with self._unpacked() as stream:
            try:
                self._check_members(stream)
            except (tarfile.TarError, EOFError, OSError) as error:
                raise HostError(f'"{self._path}" is damaged: {error}') from error
            finally:
                with suppress(OSError):  # the end of the stream, so that no writer waits
                    while stream.read(_CHUNK_BYTES):
                        pass

    def _check_members(self, stream: IO[bytes]) -> None:
        counted = _Counted(stream, self.manifest.size_bytes * 2 + _SLACK_BYTES, self._path)
        links: set[str] = set()
        known: set[str] = set()
        with open_tar(cast(IO[bytes], counted), "r|") as content:
            for member in members(content):
                name = self._refuse_unless_inside(member.name)
                if any(str(parent) in links for parent in PurePosixPath(name).parents):
                    raise self._bad(member.name, "it is below a symbolic link")
                if member.islnk() and self._refuse_unless_inside(member.linkname) not in known:
                    raise self._bad(member.name, "it is a hard link to nothing in the archive")
                if name in links or (name in known and not member.isdir()):
                    raise self._bad(member.name, "it is in the archive twice")
                (links if member.issym() else known).add(name)
        for one in self._sockets:
            name = self._refuse_unless_inside(one.path)
            if any(str(parent) in links for parent in PurePosixPath(name).parents):
                raise self._bad(one.path, "it is below a symbolic link")
            if name in known or name in links:
                raise self._bad(one.path, "it is in the archive twice")

    def _refuse_unless_inside(self, name: str) -> str:
        """Return a path in normal form. Raises HostError unless the manifest has its place."""
        path = PurePosixPath(name)
        parts = [part for part in path.parts if part != "."]
        if path.is_absolute() or ".." in parts:
            raise self._bad(name, "it would be written outside of the snapshot")
        machines = self.manifest.machines
        is_known = (
            not parts
            or parts in ([OBJECTS_FILE], [MACHINES_DIR])
            or parts[0] == DATABASE_DIR
            or (parts[0] == MACHINES_DIR and len(parts) > 1 and parts[1] in machines)
        )
        if not is_known:
            raise self._bad(name, "the manifest does not name it")
        return "/".join(parts)

    def _bad(self, name: str, why: str) -> HostError:
        return HostError(f'"{self._path}" is refused: "{name}": {why}; nothing was imported')

    def unpack(self, target: Path) -> None:
        """Write the content to an existing directory. Raises HostError. Blocking."""
        title = f'unpack "{self._path}"'
        command = as_owner(*_UNPACK, f"--directory={target}")
        with self._unpacked() as stream:
            process = popen(
                command,
                stdin=stream,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
            )
            stream.close()
            _, errors = process.communicate()
            if process.returncode:
                raise failure(title, errors.decode(errors="replace"), process.returncode)
        with _reported(title):
            for one in self._sockets:
                one.create(target)
        run_program_blocking(("sync", "--file-system", str(target)), title=f'write "{target}"')

    @contextmanager
    def _unpacked(self) -> Iterator[IO[bytes]]:
        """Yield the decompressed content."""
        command = ("zstd", "-d", "-q", "-c") if self._kind == "zstd" else ("gzip", "-d", "-c")
        title = f'decompress "{self._path}"'
        with _started(command, title=title, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            feeding = threading.Thread(target=self._feed, args=(process.stdin,), daemon=True)
            feeding.start()
            try:
                yield process.stdout
            finally:
                process.stdout.close()
                feeding.join()

    def _feed(self, stdin: IO[bytes]) -> None:
        with suppress(OSError, HostError):  # it has ended; its exit status has the cause
            for chunk in self._chunks():
                stdin.write(chunk)
        with suppress(OSError):
            stdin.close()

    def _chunks(self) -> Iterator[bytes]:
        with _reported(f'read "{self._path}"'), self._path.open("rb") as file:
            file.seek(self._offset)
            left = self._size
            while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                left -= len(chunk)
                yield chunk


class _Socket:
    """A socket of the content. Raises KeyError, TypeError, ValueError for anything else."""

    def __init__(self, data: Any) -> None:
        self.path = str(data["path"])
        self.mode = _within(data["mode"], 0o7777)
        self.owner = _within(data["uid"], _MAX_ID), _within(data["gid"], _MAX_ID)
        self.mtime_ns = _within(data["mtimeNs"], _MAX_NS)

    def create(self, target: Path) -> None:
        parent = os.open(target / Path(self.path).parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            name = Path(self.path).name
            before = os.fstat(parent)
            here = f"/proc/self/fd/{parent}/{name}"  # short enough for an address
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(here)
            os.chown(name, *self.owner, dir_fd=parent, follow_symlinks=False)
            os.chmod(name, self.mode, dir_fd=parent)
            times = (self.mtime_ns, self.mtime_ns)
            os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)
            os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
        finally:
            os.close(parent)


def _within(value: Any, limit: int) -> int:
    number = int(value)
    if not 0 <= number <= limit:
        raise ValueError(f"{number} is not between 0 and {limit}")
    return number


class _Counted(io.RawIOBase):
    """A stream that ends with an error behind a limit."""

    def __init__(self, stream: IO[bytes], limit: int, path: Path) -> None:
        self._stream = stream
        self._left = limit
        self._path = path

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise HostError(
                f'"{self._path}" is refused: its content is larger than it announces; '
                "nothing was imported"
            )
        return chunk


@contextmanager
def _started(
    command: tuple[str, ...], *, title: str, stdin: Any = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program whose output is read; raise HostError if it fails and nothing else did."""
    with _reported(f'start "{command[0]}"'):
        process = popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
    errors: list[bytes] = []
    assert process.stderr is not None
    reading = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
    reading.start()
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
        process.wait()
        reading.join()
        process.stderr.close()
    if process.returncode:
        text = b"".join(errors).decode(errors="replace")
        raise failure(title, text, process.returncode)


@contextmanager
def _reported(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostError.from_os(action, error) from error
