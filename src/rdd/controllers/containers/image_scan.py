# SPDX-License-Identifier: Apache-2.0
"""ImageScanRequest: scans for known vulnerabilities with an installed scanner.

The scanner is Trivy if it is on the PATH, otherwise Grype. Both read the image from
the engine and write JSON, which is stored in `status.result`.
"""

from collections.abc import Mapping

import orjson

from rdd.api.types import Object
from rdd.controllers.containers.requests import Report, RequestFailed
from rdd.controllers.containers.transfers import referenced_image
from rdd.host import commands
from rdd.host.errors import HostError
from rdd.kinds.image import ImageScanRequest
from rdd.runtime import Context

MAX_RESULT_BYTES = 1024 * 1024
_SCAN_S = 1800.0
_SCANNERS = {
    "trivy": ("image", "--quiet", "--format", "json", "{image}"),
    "grype": ("--quiet", "--output", "json", "docker:{image}"),
}


class ScanImage:
    """Executes requests to scan."""

    def __init__(
        self, context: Context, *, docker_host: str, environment: Mapping[str, str]
    ) -> None:
        self._context = context
        self._environment = {**environment, "DOCKER_HOST": docker_host}

    async def __call__(self, obj: Object, report: Report) -> Object:
        """Run the scanner and return its report."""
        image = referenced_image(self._context, obj, ImageScanRequest.of(obj).spec.image_ref)
        command = self._command(image.status.repo_tag or image.status.id)
        await report({})
        output = await self._run(command)
        try:
            result = orjson.dumps(orjson.loads(output)).decode()  # removes white space
        except ValueError:
            raise RequestFailed("ScannerFailed", f"{command[0]} did not write JSON") from None
        if len(result) > MAX_RESULT_BYTES:
            raise RequestFailed(
                "ResultTooLarge",
                f"the report has {len(result)} bytes; the limit is {MAX_RESULT_BYTES}",
            )
        return {"result": result}

    def _command(self, image: str) -> list[str]:
        for scanner, arguments in _SCANNERS.items():
            path = commands.find(scanner, self._environment)
            if path is not None:
                return [str(path), *(argument.format(image=image) for argument in arguments)]
        raise RequestFailed("NotSupported", "No scanner is installed: install trivy or grype")

    async def _run(self, command: list[str]) -> str:
        try:
            done = await commands.run(*command, timeout_s=_SCAN_S, environment=self._environment)
        except HostError as error:
            raise RequestFailed("ScannerFailed", str(error)) from error
        if done.status != 0:
            errors = done.errors.strip()[-1000:]
            raise RequestFailed("ScannerFailed", errors or f"exit status {done.status}")
        return done.output
