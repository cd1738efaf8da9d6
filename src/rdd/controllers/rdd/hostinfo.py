# SPDX-License-Identifier: Apache-2.0
"""hostinfo: keeps the HostInfo `system` with the resources of the host.

The object depends on nothing, so the reconciler enqueues its key at start. It recreates the
object after a deletion and reverts changes; it ignores HostInfos of other names. On a store that
several machines share, the object has the name of the machine.
"""

from functools import partial

from rdd.api import errors
from rdd.api.quantity import BINARY_SI, Quantity
from rdd.controllers.environment import ControllerEnvironment
from rdd.host import hardware
from rdd.kinds.crd import definition_of
from rdd.kinds.hostinfo import HostInfo, HostInfoStatus
from rdd.kinds.metadata import ObjectMeta
from rdd.runtime import Context, Controller, ObjectKey, Result, patch_status, resource_of, watch

SYSTEM = "system"

_RETRY_S = 5.0


def hostinfo(env: ControllerEnvironment) -> Controller:
    """Return the controller of the HostInfo."""
    return Controller(
        "hostinfo",
        partial(HostInfoReconciler, name=env.machine or SYSTEM),
        sources=(watch(HostInfo),),
        definitions=(definition_of(HostInfo),),
    )


def host_status() -> HostInfoStatus:
    """Return the CPUs and the memory of this host."""
    memory = str(Quantity.of(hardware.memory_bytes(), format=BINARY_SI))
    return HostInfoStatus(cpus=hardware.cpus(), memory=memory)


class HostInfoReconciler:
    """Creates the HostInfo of this host and writes its status."""

    def __init__(
        self, context: Context, status: HostInfoStatus | None = None, *, name: str = SYSTEM
    ) -> None:
        self._context = context
        self._status = status or host_status()
        self._infos = context.cache.of(HostInfo)
        self._own = ObjectKey("", name)
        context.enqueue(self._own)

    async def reconcile(self, key: ObjectKey) -> Result:
        if key != self._own:
            return Result.done()
        client = self._context.client
        found = self._infos.get(key)
        try:
            if found is None:
                made = HostInfo(metadata=ObjectMeta(name=key.name)).raw
                found = HostInfo.of(await client.create(resource_of(HostInfo), made))
            await patch_status(client, HostInfo, found.raw, self._status.raw)
        except errors.AlreadyExists:
            return Result.done()  # the cache is stale; its update enqueues the key
        except errors.Conflict:
            raise  # it was written meanwhile: retried by the queue
        except errors.ApiError:
            return Result.requeue(_RETRY_S)
        return Result.done()
