# SPDX-License-Identifier: Apache-2.0
"""Starts a container engine, follows its volumes through the API, and asks for one."""

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
    """What a command of rdd prints."""
    command = ["rdd", "--instance", INSTANCE.suffix, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_complete(volume: dict[str, Any]) -> bool:
    """Whether the mirror of a volume has been filled in, and is not on its way out."""
    return "status" in volume and "deletionTimestamp" not in volume["metadata"]


async def follow() -> None:
    async with Client(HttpsTransport.from_file(INSTANCE.config)) as client:
        namespace = (await client.get(APPS, "app"))["spec"]["namespace"]
        events = client.list_and_watch(VOLUMES, namespace=namespace)
        async with aclosing(events):
            async for event in events:
                if event.type == "SYNCED":
                    print("nothing yet; asking for a volume")
                    metadata = {"name": "one", "namespace": namespace}
                    spec = {"name": "data", "driver": "local"}
                    await client.create(REQUESTS, {"metadata": metadata, "spec": spec})
                elif event.type == "DELETED":
                    print("gone, here and in the engine")
                    return
                elif is_complete(event.object):
                    print("the engine has:", event.object["status"]["name"])
                    print("rdd volumes shows:", rdd("volumes", "--quiet").strip())
                    name = event.object["metadata"]["name"]
                    await client.delete(VOLUMES, name, namespace=namespace)


try:
    rdd("start")
    asyncio.run(follow())
finally:
    rdd("service", "delete")
