# SPDX-License-Identifier: Apache-2.0
"""A program with one controller that writes all the time: `frozen_program.py KUBECONFIG`."""

import asyncio
import sys
from pathlib import Path

from rdd.api import errors
from rdd.client import Client
from rdd.client.https import HttpsTransport
from rdd.client.resources import CONFIG_MAPS
from rdd.runtime import Context, Controller, Manager, ObjectKey, Ownership, Result, watch


class Writer:
    """Writes its name into every object, repeatedly."""

    def __init__(self, context: Context) -> None:
        self.client = context.client

    async def reconcile(self, key: ObjectKey) -> Result:
        for count in range(1_000_000):
            data = {"data": {"n": str(count)}}
            try:
                await self.client.patch(CONFIG_MAPS, key.name, data, namespace=key.namespace)
                await asyncio.sleep(0.01)
            except (errors.Conflict, asyncio.CancelledError):
                pass  # the worst case: a controller that ignores its cancellation
        return Result.done()


async def main(kubeconfig: Path) -> None:
    async with Client(HttpsTransport.from_file(kubeconfig)) as client:
        ownership = Ownership(client, "program", lease_s=2, renew_s=0.25)
        source = watch(CONFIG_MAPS, namespace="default", label_selector="target")
        manager = Manager(
            "program", client, [Controller("c", Writer, sources=(source,))], ownership=ownership
        )
        await manager.start()
        print(ownership.identity, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
