# SPDX-License-Identifier: Apache-2.0
"""Start a container engine, watch its volumes through the API, and create one."""

import asyncio
import os
import subprocess
from contextlib import aclosing
from pathlib import Path
from typing import Any

from rdd.client import ApiResource, Client
from rdd.client.https import HttpsTransport
from rdd.instance import Instance

APPS = ApiResource("app.rancherdesktop.io", "v1alpha1", "apps", "App", namespaced=False)
GROUP, VERSION = "containers.rancherdesktop.io", "v1alpha1"
VOLUMES = ApiResource(GROUP, VERSION, "volumes", "Volume")
REQUESTS = ApiResource(GROUP, VERSION, "volumecreaterequests", "VolumeCreateRequest")
INSTANCE = Instance("eg", home=Path(os.environ["HOME"]))


def rdd(*words: str) -> str:
    """Run a command of rdd and return its output."""
    command = ["rdd", "--instance", INSTANCE.suffix, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_complete(volume: dict[str, Any]) -> bool:
    """Return whether the mirror of a volume has a status and is not being deleted."""
    return "status" in volume and "deletionTimestamp" not in volume["metadata"]


async def follow() -> None:
    async with Client(HttpsTransport.from_file(INSTANCE.config)) as client:
        namespace = (await client.get(APPS, "app"))["spec"]["namespace"]
        events = client.list_and_watch(VOLUMES, namespace=namespace)
        async with aclosing(events):
            async for event in events:
                if event.type == "SYNCED":
                    print("no volumes; creating one")
                    metadata = {"name": "one", "namespace": namespace}
                    spec = {"name": "data", "driver": "local"}
                    await client.create(REQUESTS, {"metadata": metadata, "spec": spec})
                elif event.type == "DELETED":
                    print("deleted in the API and in the engine")
                    return
                elif is_complete(event.object):
                    print("volume in the engine:", event.object["status"]["name"])
                    print("rdd volumes:", rdd("volumes", "--quiet").strip())
                    name = event.object["metadata"]["name"]
                    await client.delete(VOLUMES, name, namespace=namespace)


try:
    rdd("start")
    asyncio.run(follow())
finally:
    rdd("service", "delete")
