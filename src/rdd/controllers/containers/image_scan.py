# SPDX-License-Identifier: Apache-2.0
"""ImageScanRequest: looks for known vulnerabilities with an installed scanner.

Trivy is used if it is on the PATH, otherwise Grype. Both ask the engine for the
image and write JSON, which is kept as it is in `status.result`.
"""

import asyncio
import shutil
from collections.abc import Mapping

import orjson

from rdd.api.types import Object
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.controllers.containers.transfers import referred
from rdd.host.commands import start_process
from rdd.kinds.image import ImageScanRequest
from rdd.runtime import Context

MAX_RESULT_BYTES = 1024 * 1024
_SCAN_S = 1800.0
_SCANNERS = {
    "trivy": ("image", "--quiet", "--format", "json", "{image}"),
    "grype": ("--quiet", "--output", "json", "docker:{image}"),
}


class ScanImage:
    """Carries out requests to scan."""

    def __init__(
        self, context: Context, *, docker_host: str, environment: Mapping[str, str]
    ) -> None:
        self._context = context
        self._environment = {**environment, "DOCKER_HOST": docker_host}

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Run the scanner; what it writes is the result."""
        image = referred(self._context, obj, ImageScanRequest.of(obj).spec.image_ref)
        name = image.status.repo_tag or image.status.id
        command = self._command(name)
        await report({})
        out = await self._output(command)
        try:
            result = orjson.dumps(orjson.loads(out)).decode()  # without the white space
        except ValueError:
            raise RequestFailed("ScannerFailed", f"{command[0]} wrote no JSON") from None
        if len(result) > MAX_RESULT_BYTES:
            raise RequestFailed(
                "ResultTooLarge",
                f"the result has {len(result)} bytes; at most {MAX_RESULT_BYTES} can be kept",
            )
        return {"result": result}

    def _command(self, image: str) -> list[str]:
        for scanner, arguments in _SCANNERS.items():
            path = shutil.which(scanner, path=self._environment.get("PATH"))
            if path is not None:
                return [path, *(argument.format(image=image) for argument in arguments)]
        raise RequestFailed("NotSupported", "No scanner is installed: install trivy or grype")

    async def _output(self, command: list[str]) -> bytes:
        try:
            process = await start_process(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
            )
        except OSError as error:
            raise RequestFailed(
                "ScannerFailed", f"cannot run {command[0]}: {error.strerror or error}"
            ) from error
        try:
            async with asyncio.timeout(_SCAN_S):
                out, err = await process.communicate()
        except TimeoutError:
            raise RequestFailed(
                "ScannerFailed", f"{command[0]} did not end within {_SCAN_S:g} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = err.decode("utf-8", "replace").strip()[-1000:]
            raise RequestFailed("ScannerFailed", said or f"exit status {process.returncode}")
        return out
