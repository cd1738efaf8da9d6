# SPDX-License-Identifier: Apache-2.0
"""ImageBuildRequest and ImageTagRequest.

The engine's own builder builds the image: from a folder of this machine, which is sent as a
stream, or from a Git repository, which the engine fetches. The output is kept in memory until
the request is deleted; `image/build-log` sends it. Deleting the request ends the connection,
upon which the engine cancels the build. A build that runs again after a crash uses the
engine's cache.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

import orjson

from rdd.api.types import Object
from rdd.controllers.containers.build_context import tar_of
from rdd.controllers.containers.build_logs import BuildLog, BuildLogs
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.controllers.containers.transfers import parse_reference, referenced_image
from rdd.engine import Docker, EngineProtocolError
from rdd.engine.docker import quoted_name
from rdd.engine.http import EngineExchange
from rdd.kinds.image import ImageBuildRequest, ImageBuildSpec, ImageTagRequest
from rdd.runtime import AdmissionRequest, Context, Denied

_is_git = re.compile(
    r"(?:https?|git|ssh)://[^\s/]+/\S+|[\w.-]+@[\w.-]+:\S+|github\.com/\S+"
).fullmatch
_is_step = re.compile(r"Step (\d+)/(\d+) : ").match
_MAX_MESSAGE = 500


class TagImage:
    """Executes requests for tags."""

    def __init__(self, context: Context, docker: Docker) -> None:
        self._context = context
        self._docker = docker

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Set the tag; a no-op if the image has it."""
        spec = ImageTagRequest.of(obj).spec
        image = referenced_image(self._context, obj, spec.image_ref)
        reference = parse_reference(spec.repo_tag)
        if reference.digest:
            raise RequestFailed("Invalid", "a tag cannot contain a digest")
        query = {"repo": reference.familiar, "tag": reference.tag}
        path = f"/images/{quoted_name(image.status.id, '/:@')}/tag"
        await self._docker.call("POST", path, query)
        return {}


class BuildImage:
    """Executes builds."""

    def __init__(self, docker: Docker, logs: BuildLogs) -> None:
        self._docker = docker
        self._logs = logs

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Build the image and return its ID."""
        spec = ImageBuildRequest.of(obj).spec
        metadata = obj["metadata"]
        log = self._logs.open(metadata["namespace"], metadata["name"], metadata["uid"])
        try:
            async with self._start(spec) as exchange, aclosing(exchange.lines()) as lines:
                return await _follow(lines, log, report)
        except OSError as error:
            text = f"{error.filename or spec.context}: {error.strerror or error}"
            log.write(f"{text}\n")
            raise RequestFailed("Invalid", text) from error
        except RequestFailed as error:
            log.write(f"{error}\n")
            raise
        finally:
            log.end()

    def _start(self, spec: ImageBuildSpec) -> AbstractAsyncContextManager[EngineExchange]:
        query = {
            "dockerfile": spec.dockerfile,
            "target": spec.target,
            "buildargs": json.dumps(dict(spec.args)) if spec.args else "",
            "nocache": "1" if spec.no_cache else "",
            "pull": "1" if spec.pull else "",
            "rm": "1",
            "forcerm": "1",
        }
        tags = [str(parse_reference(tag)) for tag in spec.tags]
        if _is_git(spec.context):
            query["remote"] = spec.context
            return self._docker.upload("POST", "/build", query, _nothing(), repeated={"t": tags})
        folder = Path(spec.context)
        if not folder.is_dir():
            raise RequestFailed("Invalid", f"{folder}: not a folder on this machine")
        pieces = tar_of(folder, spec.dockerfile or "Dockerfile")
        headers = {"Content-Type": "application/x-tar"}
        return self._docker.upload(
            "POST", "/build", query, pieces, headers=headers, repeated={"t": tags}
        )


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _follow(lines: AsyncIterator[bytes], log: BuildLog, report: Report) -> Object:
    image_id = ""
    progress: dict[str, Any] = {}
    async for line in lines:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise EngineProtocolError.of("the engine's response is not JSON", line) from None
        if "error" in found:
            raise RequestFailed("BuildFailed", str(found["error"]).strip()[:_MAX_MESSAGE])
        text = str(found.get("stream") or _status_line(found))
        if text:
            log.write(text)
        image_id = str((found.get("aux") or {}).get("ID") or image_id)
        step = _is_step(text)
        if step:
            progress |= {"step": int(step[1]), "steps": int(step[2])}
        if text.strip():
            progress["message"] = text.strip().splitlines()[-1][:_MAX_MESSAGE]
            await report({"progress": dict(progress)})
    if not image_id:
        raise RequestFailed("BuildFailed", "the engine reported no image")
    return {"imageId": image_id, "progress": progress}


def _status_line(found: dict[str, Any]) -> str:
    """Return the line of a message about a base image that is pulled."""
    status = found.get("status")
    if not status or found.get("progressDetail"):
        return ""
    return f"{found['id']}: {status}\n" if found.get("id") else f"{status}\n"


async def check_build(request: AdmissionRequest[ImageBuildRequest]) -> None:
    """Raise Denied unless the context is a folder or a Git URL and the tags are valid."""
    spec = request.object.spec
    if not spec.context.startswith("/") and not _is_git(spec.context):
        raise Denied(
            f'spec.context: "{spec.context}" is neither an absolute path nor the URL of a Git '
            "repository"
        )
    if "\0" in spec.context:
        raise Denied("spec.context: invalid character")
    for tag in spec.tags:
        try:
            parse_reference(tag)
        except RequestFailed as error:
            raise Denied(f"spec.tags: {error}") from error
