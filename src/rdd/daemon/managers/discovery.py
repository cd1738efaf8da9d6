# SPDX-License-Identifier: Apache-2.0
"""The discovery ConfigMap: lists controller managers, and its annotation reports readiness.

It informs users and programs and is never a lock. The daemon deletes the one of the previous
run before the port is served, and creates a new one: its creation time is the start of the
control plane. Name, labels and annotation are an interface to external programs.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from rdd.api import names

if TYPE_CHECKING:  # commands use the names below without a client
    from rdd.client import Client

CONFIG_MAP_PATH = (
    f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.DISCOVERY_CONFIG_MAP}"
)
EMBEDDED = "embedded"
"""The key of the daemon's own manager; the others are those of external programs."""

_NAME_LABEL = {names.APP_NAME_LABEL: "rancher-desktop-daemon"}
NAMESPACE = {"metadata": {"name": names.SYSTEM_NAMESPACE, "labels": _NAME_LABEL}}
_LABELS = {**_NAME_LABEL, names.APP_COMPONENT_LABEL: "controller-manager"}
_RETRY_S = 0.1


class DiscoveryMap:
    """The discovery ConfigMap of one run."""

    def __init__(self, client: "Client", *, is_shared: bool = False) -> None:
        self._client = client
        self._is_shared = is_shared
        """Several servers use the ConfigMap: none deletes it, or its annotation."""

    async def clear(self) -> None:
        """Delete the ConfigMap, of this or of the previous run."""
        from rdd.api.errors import NotFound
        from rdd.client.resources import CONFIG_MAPS

        if self._is_shared:
            return
        try:
            await self._client.delete(
                CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
            )
        except NotFound:
            pass

    async def create(self) -> None:
        """Create the namespace and an empty ConfigMap without the annotation.

        Waits for a namespace that is being deleted.
        """
        from rdd.api.errors import AlreadyExists, Forbidden, NotFound
        from rdd.client.resources import CONFIG_MAPS, NAMESPACES

        config_map: dict[str, Any] = {
            "metadata": {
                "name": names.DISCOVERY_CONFIG_MAP,
                "namespace": names.SYSTEM_NAMESPACE,
                "labels": _LABELS,
            }
        }
        while True:
            try:
                await self._client.create(NAMESPACES, NAMESPACE)
            except AlreadyExists:
                pass
            try:
                await self._client.create(CONFIG_MAPS, config_map)
                return
            except AlreadyExists:
                return
            except (Forbidden, NotFound):  # the namespace is being deleted
                await asyncio.sleep(_RETRY_S)

    async def set_ready(self, *, ready: bool) -> None:
        """Set or remove the annotation."""
        from rdd.api.errors import NotFound
        from rdd.client.resources import CONFIG_MAPS

        if self._is_shared and not ready:
            return
        annotation = {names.READY: "true" if ready else None}
        try:
            await self._client.patch(
                CONFIG_MAPS,
                names.DISCOVERY_CONFIG_MAP,
                {"metadata": {"annotations": annotation}},
                namespace=names.SYSTEM_NAMESPACE,
            )
        except NotFound:
            if ready:  # deleted by a user
                await self.create()
                await self.set_ready(ready=True)

    async def register(self, manager: str, entry: str, *, create: bool = True) -> None:
        """Add or replace the entry of a manager.

        A missing ConfigMap is created or, without `create`, raises NotFound.
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
        """Remove the entry of a manager unless another of its name has replaced it."""
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
