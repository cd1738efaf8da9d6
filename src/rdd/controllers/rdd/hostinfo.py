# SPDX-License-Identifier: Apache-2.0
"""hostinfo: keeps the HostInfo `system`, which says what the machine has.

There is nothing to wait for before it can be made, so the reconciler asks for its
first look by itself. It is made again when it is deleted, and corrected when
somebody changes it; HostInfos of other names are nobody's business.
"""

from rdd.api import errors
from rdd.api.quantity import BINARY_SI, Quantity
from rdd.controllers.environment import ControllerEnvironment
from rdd.host import hardware
from rdd.kinds.crd import definition_of
from rdd.kinds.hostinfo import HostInfo, HostInfoStatus
from rdd.kinds.metadata import ObjectMeta
from rdd.runtime import Context, Controller, ObjectKey, Result, patch_status, resource_of, watch

SYSTEM = ObjectKey("", "system")

_RETRY_S = 5.0


def hostinfo(env: ControllerEnvironment) -> Controller:
    """The controller of the HostInfo."""
    return Controller(
        "hostinfo",
        HostInfoReconciler,
        sources=(watch(HostInfo),),
        definitions=(definition_of(HostInfo),),
    )


def host_status() -> HostInfoStatus:
    """What this machine has."""
    memory = str(Quantity.of(hardware.memory_bytes(), format=BINARY_SI))
    return HostInfoStatus(cpus=hardware.cpus(), memory=memory)


class HostInfoReconciler:
    """Has the HostInfo `system` exist and report a status."""

    def __init__(self, context: Context, status: HostInfoStatus | None = None) -> None:
        self._context = context
        self._status = status or host_status()
        self._infos = context.cache.of(HostInfo)
        context.enqueue(SYSTEM)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Make or correct the object."""
        if key != SYSTEM:
            return Result.done()
        client = self._context.client
        found = self._infos.get(key)
        try:
            if found is None:
                made = HostInfo(metadata=ObjectMeta(name=key.name)).raw
                found = HostInfo.of(await client.create(resource_of(HostInfo), made))
            await patch_status(client, HostInfo, found.raw, self._status.raw)
        except errors.AlreadyExists:
            return Result.done()  # the cache is a moment behind, and looks again when it is not
        except errors.Conflict:
            raise  # somebody wrote it since it was read: looked at again in a moment
        except errors.ApiError:
            return Result.requeue(_RETRY_S)
        return Result.done()
