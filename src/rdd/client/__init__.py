# SPDX-License-Identifier: Apache-2.0
"""A client of the Kubernetes API, in-process or over HTTPS.

    client = Client(HttpsTransport(kubeconfig.load(path)))
    async with client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        async for event in client.list_and_watch(CONFIG_MAPS, namespace="default"):
            print(event.type, event.object["metadata"]["name"])

Objects are plain dicts. A resource is named by an `ApiResource`; those every
server has are constants in `rdd.client.resources`, others come from
`Client.discover`. Failures are the classes of `rdd.api.errors`, or
`Unreachable` when no answer came at all.

Whoever has a `Client` cannot tell which transport it uses: `LocalTransport`
calls a server in the same process as a given user, `HttpsTransport` (in
`rdd.client.https`, because it imports aiohttp) connects to an address.
"""

from rdd.client.client import Client
from rdd.client.discovery import ServerResources
from rdd.client.local import LocalTransport
from rdd.client.objects import Event, ObjectList
from rdd.client.resources import ApiResource
from rdd.client.transport import Call, Reply, Transport, Unreachable

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
