# SPDX-License-Identifier: Apache-2.0
"""The label of containers that keep their machine awake, read from the Docker API."""

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rdd.host import unix_http
from rdd.host.errors import HostError

KEEP_AWAKE = "rdd.io/keep-awake"
_TIMEOUT_S = 10.0


async def labelled(docker_socket: Path) -> Sequence[str]:
    """Return the running containers that keep the machine awake. Raises HostError."""
    filters = quote(json.dumps({"label": [KEEP_AWAKE], "status": ["running"]}), safe="")
    try:
        response, body = await unix_http.request(
            docker_socket,
            f"/containers/json?filters={filters}",
            timeout_s=_TIMEOUT_S,
            max_bytes=None,
        )
        if response.status != 200:
            raise HostError(f"the engine does not list its containers: {response.status}")
        return [
            f"container {item['Id'][:12]} has the label {KEEP_AWAKE}"
            for item in json.loads(body)
            if str(item["Labels"][KEEP_AWAKE]).lower() != "false"
        ]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise HostError(f"the engine does not list its containers: {error}") from error
