# SPDX-License-Identifier: Apache-2.0
"""Files of containers and volumes, through the engine's archives.

A directory is listed from the tar of everything below it; the listing ends after
`MAX_LISTED_BYTES` and is then marked as truncated. Nothing runs inside the container, so this
works without a shell, for stopped containers and for any image.

A volume is read through a container that mounts it; if there is none, through a helper that is
created from an empty image, never started, and removed afterwards. The mirror ignores both.
"""

import base64
import json
import posixpath
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from rdd.engine.docker import Docker, quoted_name
from rdd.engine.errors import EngineError, EngineNotFound, EngineProtocolError
from rdd.engine.http import EngineExchange
from rdd.engine.records import Object
from rdd.engine.tar_listing import TarEntry, TarStream

MAX_LISTED_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 10_000
_MAX_LINKS = 10
HELPER: Final = "io.rancherdesktop.helper"
"""The label of the helper and its image."""
_MOUNTED_AT = "/volume"
_GO_DIRECTORY, _GO_SYMLINK = 1 << 31, 1 << 27
_EMPTY_TAR = bytes(1024)


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a directory."""

    entries: list[TarEntry]
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where files are: a container, and a directory in it that is shown as the root."""

    container: str
    root: str = "/"


@asynccontextmanager
async def of_volume(
    docker: Docker, name: str, *, is_written: bool = False
) -> AsyncGenerator[Place, None]:
    """Provide a container that has a volume. Raises EngineFailure."""
    await docker.inspect_volume(name)
    if not is_written:
        found = await _mounted(docker, name)
        if found is not None:
            yield found
            return
    id_ = await _create_helper(docker, name)
    try:
        yield Place(id_, _MOUNTED_AT)
    finally:
        await docker.remove_container(id_, force=True)


async def _mounted(docker: Docker, name: str) -> Place | None:
    filters = json.dumps({"volume": [name]})
    for each in await docker.call("GET", "/containers/json", {"all": "1", "filters": filters}):
        for mount in each.get("Mounts") or ():
            if mount.get("Name") == name and mount.get("Destination"):
                return Place(str(each["Id"]), str(mount["Destination"]))
    return None


async def _create_helper(docker: Docker, name: str) -> str:
    body: Object = {
        "Image": await _helper_image(docker),
        "Cmd": ["-"],
        "Labels": {HELPER: "files"},
        "NetworkDisabled": True,
        "HostConfig": {
            "Mounts": [{"Type": "volume", "Source": name, "Target": _MOUNTED_AT}],
            "NetworkMode": "none",
        },
    }
    made = await docker.call("POST", "/containers/create", {}, body)
    return str(made["Id"])


async def _helper_image(docker: Docker) -> str:
    filters = json.dumps({"label": [f"{HELPER}=files"]})
    for each in await docker.call("GET", "/images/json", {"all": "1", "filters": filters}):
        return str(each["Id"])
    query = {"fromSrc": "-", "changes": f"LABEL {HELPER}=files"}
    async with docker.open("POST", "/images/create", query, body=_EMPTY_TAR) as exchange:
        lines = (await exchange.read(1024 * 1024)).splitlines()
    status = json.loads(lines[-1]).get("status", "") if lines else ""
    if not status.startswith("sha256:"):
        raise EngineProtocolError(f"the engine imported no image: {status[:200]!r}")
    return str(status)


async def list_directory(docker: Docker, place: Place, path: str) -> Listing:
    """List a directory; a link to one is followed. Raises EngineFailure."""
    target = await _resolved(docker, place, path)
    if not target.is_directory:
        raise EngineError.of(400, f"{path} is not a directory")
    async with _archive(docker, place.container, _content(target.path)) as exchange:
        tar = TarStream(exchange.chunks())
        found: dict[str, TarEntry] = {}
        while (entry := await tar.next()) is not None:
            name = entry.name.removeprefix("./").rstrip("/")
            if name not in ("", ".") and "/" not in name:
                found[name] = TarEntry(
                    name, entry.type, entry.size, entry.mode, entry.modified, entry.target
                )
            if tar.read_bytes > MAX_LISTED_BYTES or len(found) >= MAX_ENTRIES:
                return Listing(list(found.values()), is_truncated=True)
    return Listing(list(found.values()), is_truncated=False)


@dataclass(frozen=True, slots=True)
class Download:
    """The content of a file, or a tar."""

    name: str
    length: int | None
    pieces: AsyncIterator[bytes]
    is_tar: bool


@asynccontextmanager
async def download(
    docker: Docker, place: Place, path: str, *, as_tar: bool = False
) -> AsyncGenerator[Download, None]:
    """Open a file or directory. Raises EngineFailure."""
    target = await _resolved(docker, place, path)
    name = posixpath.basename(path.rstrip("/")) or "files"
    source = target.path
    if target.is_directory and posixpath.normpath(path) == "/":
        source = _content(source)  # a backup has paths relative to the root
    async with _archive(docker, place.container, source) as exchange:
        if as_tar or target.is_directory:
            yield Download(f"{name}.tar", None, exchange.chunks(), is_tar=True)
            return
        tar = TarStream(exchange.chunks())
        entry = await tar.next()
        if entry is None or entry.type != "file":
            raise EngineError.of(400, f"{path} is neither a file nor a directory")
        yield Download(name, entry.size, tar.content(entry), is_tar=False)


async def restore(docker: Docker, place: Place, pieces: AsyncIterator[bytes]) -> None:
    """Unpack a tar, plain or compressed, below a place. Raises EngineFailure."""
    path = f"/containers/{quoted_name(place.container)}/archive"
    headers = {"Content-Type": "application/x-tar"}
    query = {"path": place.root}
    async with docker.upload("PUT", path, query, pieces, headers=headers) as exchange:
        await exchange.read(1024 * 1024)


@dataclass(frozen=True, slots=True)
class _Target:
    path: str
    is_directory: bool


async def _resolved(docker: Docker, place: Place, path: str) -> _Target:
    """Follow links of the last element within a place."""
    shown = posixpath.normpath("/" + path.lstrip("/"))
    for _ in range(_MAX_LINKS):
        full = posixpath.join(place.root, shown.lstrip("/")) if shown != "/" else place.root
        found = await _stat(docker, place.container, full)
        mode = int(found.get("mode") or 0)
        link = str(found.get("linkTarget") or "")
        if not mode & _GO_SYMLINK or not link:
            return _Target(full, bool(mode & _GO_DIRECTORY))
        # The engine returns targets that are absolute in the container.
        if place.root != "/" and posixpath.isabs(link):
            inside = posixpath.relpath(link, place.root)
            link = "/" + inside if not inside.startswith("..") else link
        shown = posixpath.normpath(posixpath.join(posixpath.dirname(shown), link))
    raise EngineError.of(400, f"{path} has too many levels of symbolic links")


async def _stat(docker: Docker, container: str, path: str) -> dict[str, Any]:
    url = f"/containers/{quoted_name(container)}/archive"
    try:
        async with docker.open("HEAD", url, {"path": path}) as exchange:
            header = exchange.headers.get("x-docker-container-path-stat", "")
    except EngineNotFound as error:
        raise EngineError.of(404, f"no container, or no file {path} in it") from error
    try:
        found = json.loads(base64.b64decode(header))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EngineProtocolError("the engine did not describe the file")
    return found


@asynccontextmanager
async def _archive(
    docker: Docker, container: str, path: str
) -> AsyncGenerator[EngineExchange, None]:
    url = f"/containers/{quoted_name(container)}/archive"
    async with docker.open("GET", url, {"path": path}) as exchange:
        yield exchange


def _content(directory: str) -> str:
    """Return the path whose archive has names relative to a directory."""
    return directory.rstrip("/") + "/."


def mode_text(entry: TarEntry) -> str:
    """Return type and permissions as `ls -l` prints them."""
    kinds = {"directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "other": stat.S_IFCHR}
    return stat.filemode(kinds.get(entry.type, stat.S_IFREG) | entry.mode & 0o7777)
