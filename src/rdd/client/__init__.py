# SPDX-License-Identifier: Apache-2.0
"""A client of the Kubernetes API, in-process or over HTTPS, async or blocking.

    client = Client(HttpsTransport(kubeconfig.load(path)))
    async with client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        async for event in client.list_and_watch(CONFIG_MAPS, namespace="default"):
            print(event.type, event.object["metadata"]["name"])

Objects are plain dicts. An `ApiResource` names a resource; those every server
has are constants in `rdd.client.resources`, others come from `Client.discover`.
Failures are the classes of `rdd.api.errors`, or `Unreachable` without a reply.

A `Client` does not depend on its transport: `LocalTransport` calls a server in the
same process as a given user, `HttpsTransport` (in `rdd.client.https`, because it
imports aiohttp) connects to an address.

    errors.py, kubeconfig.py, resources.py, discovery.py   the core, which parses
    aio.py          `Client`, on local.py or https.py; listwatch.py for caches
    blocking.py     the connection of the command line and of the built-in kubectl

The core and `blocking` need nothing but the standard library at import time,
because users wait for commands to start. For the same reason the names below are
imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdd.client.aio import Client
    from rdd.client.discovery import ServerResources
    from rdd.client.errors import Unreachable
    from rdd.client.local import LocalTransport
    from rdd.client.objects import Event, ObjectList
    from rdd.client.resources import ApiResource
    from rdd.client.transport import Call, Reply, Transport

__all__ = [
    "ApiResource",
    "Call",
    "Client",
    "Event",
    "LocalTransport",
    "ObjectList",
    "Reply",
    "ServerResources",
    "Transport",
    "Unreachable",
]

_MODULES = {
    "ApiResource": "resources",
    "Call": "transport",
    "Client": "aio",
    "Event": "objects",
    "LocalTransport": "local",
    "ObjectList": "objects",
    "Reply": "transport",
    "ServerResources": "discovery",
    "Transport": "transport",
    "Unreachable": "errors",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value
