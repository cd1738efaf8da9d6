# SPDX-License-Identifier: Apache-2.0
"""Disks and snapshots of virtual machines: `/passthrough/limavm/disks/NAME/…`.

    GET    NAME                           size, snapshots, whether it is suspended
    POST   NAME/snapshots/SNAPSHOT        create a snapshot
    POST   NAME/snapshots/SNAPSHOT/restore
    DELETE NAME/snapshots/SNAPSHOT
    POST   NAME/trim                      release unused space of the running guest

A snapshot is an operation, not a desired state: the response has the outcome, a failure as a
Status. Snapshots can be created, restored and deleted only while the virtual machine is
stopped; it cannot start meanwhile.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson

from rdd.api import errors
from rdd.controllers.lima.limavm.machines_interface import VmEnvironment
from rdd.host.errors import HostError
from rdd.vm.errors import Busy, NotCreated
from rdd.vm.instance_dir import InvalidName

if TYPE_CHECKING:
    from rdd.http.exchange import Exchange
    from rdd.http.responses import Response

ENDPOINT = "disks"


class DiskEndpoint:
    """Serves requests about disks."""

    def __init__(
        self,
        machines: Callable[[], VmEnvironment | None],
        changed: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._machines = machines
        self._changed = changed
        """Called with the name of a machine whose disk has other snapshots now."""

    async def handle(self, exchange: "Exchange", rest: str) -> "Response | None":
        """Execute a request; a failure is a Status."""
        from rdd.http.responses import Response

        try:
            result = await self._do(exchange.method, rest.strip("/").split("/"))
        except errors.ApiError as error:
            return Response(error.code, orjson.dumps(error.to_status()))
        return Response(200, orjson.dumps(result))

    async def _do(self, method: str, words: list[str]) -> dict[str, Any]:
        machines = self._machines()
        if machines is None:
            raise errors.ServiceUnavailable("the limavm controller is starting")
        name = words[0]
        try:
            match method, words[1:]:
                case "GET", []:
                    return await machines.describe_storage(name)
                case "POST", ["trim"]:
                    return {"message": await machines.trim(name)}
                case "POST", ["snapshots", snapshot]:
                    async with machines.storage(name) as storage:
                        await storage.create_snapshot(snapshot)
                case "POST", ["snapshots", snapshot, "restore"]:
                    async with machines.storage(name) as storage:
                        await storage.restore_snapshot(snapshot)
                case "DELETE", ["snapshots", snapshot]:
                    async with machines.storage(name) as storage:
                        await storage.delete_snapshot(snapshot)
                case _:
                    raise errors.NotFound(f"unknown operation {method} {'/'.join(words)}")
        except (NotCreated, InvalidName) as error:
            raise errors.NotFound(str(error)) from error
        except Busy as error:
            raise errors.Conflict(str(error)) from error
        except HostError as error:
            raise errors.BadRequest(str(error)) from error
        if self._changed is not None:
            await self._changed(name)
        return await machines.describe_storage(name)
