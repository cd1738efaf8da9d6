# SPDX-License-Identifier: Apache-2.0
"""Networks of the Docker engine."""

from rdd.engine.docker import Docker, quoted_name
from rdd.engine.errors import EngineError, EngineProtocolError
from rdd.engine.records import Object


async def list_networks(docker: Docker) -> list[Object]:
    """Return all networks. Raises EngineFailure."""
    found = await docker.call("GET", "/networks")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise EngineProtocolError.of("the engine's response is not a list", repr(found).encode())
    return found


async def inspect_network(docker: Docker, id_: str) -> Object:
    """Return a network. Raises EngineFailure."""
    found = await docker.call("GET", f"/networks/{quoted_name(id_)}")
    if not isinstance(found, dict):
        raise EngineProtocolError.of("the engine's response is not an object", repr(found).encode())
    return found


async def remove_network(docker: Docker, id_: str) -> None:
    """Remove a network; EngineConflict if containers are connected to it."""
    try:
        await docker.call("DELETE", f"/networks/{quoted_name(id_)}")
    except EngineError as error:
        if error.status == 403:
            raise EngineError.of(409, error.message) from error
        raise
