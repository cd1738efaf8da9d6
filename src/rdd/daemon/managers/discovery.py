# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap in which controller managers are listed, and whose annotation says "ready".

It is a directory for people and programs, never a lock. The daemon removes the one
of the run before at start, before anybody can see it, and makes a new one: its
creation is the start of the control plane. External programs know its name, labels
and annotation.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from rdd.api import names

if TYPE_CHECKING:  # the commands want the names below without a client
    from rdd.client import Client

CONFIG_MAP_PATH = (
    f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.DISCOVERY_CONFIG_MAP}"
)
EMBEDDED = "embedded"
"""The key of the daemon's own manager; the others are those of external programs."""

_NAME_LABEL = {names.APP_NAME_LABEL: "rancher-desktop-daemon"}
_LABELS = {**_NAME_LABEL, names.APP_COMPONENT_LABEL: "controller-manager"}
_RETRY_S = 0.1


class DiscoveryMap:
    """The discovery ConfigMap of one run."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def clear(self) -> None:
        """Remove the one of the run before."""
        from rdd.api.errors import NotFound
        from rdd.client.resources import CONFIG_MAPS

        try:
            await self._client.delete(
                CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
            )
        except NotFound:
            pass

    async def create(self) -> None:
        """Make the namespace and an empty ConfigMap that is not ready.

        A namespace that is being deleted is waited for.
        """
        from rdd.api.errors import AlreadyExists, Forbidden, NotFound
        from rdd.client.resources import CONFIG_MAPS, NAMESPACES

        namespace = {"metadata": {"name": names.SYSTEM_NAMESPACE, "labels": _NAME_LABEL}}
        config_map: dict[str, Any] = {
            "metadata": {
                "name": names.DISCOVERY_CONFIG_MAP,
                "namespace": names.SYSTEM_NAMESPACE,
                "labels": _LABELS,
            }
        }
        while True:
            try:
                await self._client.create(NAMESPACES, namespace)
            except AlreadyExists:
                pass
            try:
                await self._client.create(CONFIG_MAPS, config_map)
                return
            except AlreadyExists:
                return
            except (Forbidden, NotFound):  # the namespace is on its way out
                await asyncio.sleep(_RETRY_S)

    async def set_ready(self, *, ready: bool) -> None:
        """Say that the control plane is ready, or no longer."""
        from rdd.api.errors import NotFound
        from rdd.client.resources import CONFIG_MAPS

        annotation = {names.READY: "true" if ready else None}
        try:
            await self._client.patch(
                CONFIG_MAPS,
                names.DISCOVERY_CONFIG_MAP,
                {"metadata": {"annotations": annotation}},
                namespace=names.SYSTEM_NAMESPACE,
            )
        except NotFound:
            if ready:  # somebody deleted it since: it must be there to say so
                await self.create()
                await self.set_ready(ready=True)

    async def register(self, manager: str, entry: str, *, create: bool = True) -> None:
        """Enter a manager, also where it was entered before.

        A ConfigMap that is missing is made, or, without `create`, is NotFound.
        """
        from rdd.api.errors import NotFound
        from rdd.client.resources import CONFIG_MAPS

        patch = {"data": {manager: entry}}
        while True:
            try:
                await self._client.patch(
                    CONFIG_MAPS,
                    names.DISCOVERY_CONFIG_MAP,
                    patch,
                    namespace=names.SYSTEM_NAMESPACE,
                    type_="strategic",
                )
                return
            except NotFound:
                if not create:
                    raise
                await self.create()

    async def deregister(self, manager: str, entry: str) -> None:
        """Take a manager out, unless another of its name has been entered since."""
        from rdd.api.errors import Invalid, NotFound
        from rdd.client.resources import CONFIG_MAPS

        path = f"/data/{manager}"
        patch = [{"op": "test", "path": path, "value": entry}, {"op": "remove", "path": path}]
        try:
            await self._client.patch(
                CONFIG_MAPS,
                names.DISCOVERY_CONFIG_MAP,
                patch,
                namespace=names.SYSTEM_NAMESPACE,
                type_="json",
            )
        except (Invalid, NotFound):
            pass
