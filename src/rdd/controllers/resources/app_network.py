# SPDX-License-Identifier: Apache-2.0
"""The way to servers: the proxies, authorities and the mirror of the App."""

from rdd.api import errors, names
from rdd.client import Client
from rdd.fetch.network import Network
from rdd.fetch.sources import Sources
from rdd.kinds.app import App
from rdd.runtime import resource_of


async def network_of_app(client: Client, sources: Sources) -> Network:
    """Return the network of the App's settings; the environment's if there is no App."""
    try:
        app = await client.get(resource_of(App), names.APP_NAME)
    except errors.NotFound:
        return Network(sources=sources)
    return Network.of_settings(app.get("spec") or {}, sources)
