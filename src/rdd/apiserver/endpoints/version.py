# SPDX-License-Identifier: Apache-2.0
"""/version: the Kubernetes version that the server implements."""

import platform
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from rdd.api import mediatypes
from rdd.apiserver.http import negotiation, responses
from rdd.apiserver.http.request import AnyResponse, Request

MAJOR, MINOR, PATCH = "1", "36", "3"
KUBERNETES = f"v{MAJOR}.{MINOR}.{PATCH}"


def document(suffix: str = "") -> dict[str, Any]:
    """Return the document of /version; `suffix` names the implementation, e.g. `rdd-v0.1.0`."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": f"{KUBERNETES}+{suffix}" if suffix else KUBERNETES,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{system}/{machine}",
    }


def handler(suffix: str = "") -> Callable[[Request], Awaitable[AnyResponse]]:
    """Return the handler of /version."""

    async def handle(request: Request) -> AnyResponse:
        negotiation.check_published(request, mediatypes.JSON)
        return responses.value(request, document(suffix))

    return handle
