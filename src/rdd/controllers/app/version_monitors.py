# SPDX-License-Identifier: Apache-2.0
"""Monitors of the publishers' lists of versions: of k3s, and of the tools of the catalogue.

They exist with the consent `downloads.automatic` of the App, and are suspended when it is
withdrawn. `rdd tools` reads the lists from their content.
"""

from typing import Final

from rdd.api import errors
from rdd.api.types import Object
from rdd.client import Client
from rdd.kinds.app import App
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import is_controlled_by, resource_of, with_controller
from rdd.toolbox.catalogue import Catalogue

INTERVAL: Final = "24h"


def lists_of_tools() -> dict[str, str]:
    """Return the URLs of the tools' lists by the name of their monitor; each URL once."""
    found: dict[str, str] = {}
    for name, tool in sorted(Catalogue.shipped().tools.items()):
        if tool.role != "kubernetes" and tool.releases_url not in found.values():
            found[f"{name}-versions"] = tool.releases_url
    return found


async def ensure_monitor(
    client: Client, app: App, name: str, url: str, labels: Object
) -> URLMonitor | None:
    """Create or suspend a monitor, as the consent of the App is; None if there is none.

    A monitor of that name that the user has created stays as it is.
    """
    resource = resource_of(URLMonitor)
    has_consent = app.spec.downloads.automatic
    try:
        found = await client.get(resource, name)
    except errors.NotFound:
        if not has_consent:
            return None
        wanted = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"url": url, "interval": INTERVAL},
        }
        try:
            found = await client.create(resource, with_controller(wanted, app.raw))
        except (errors.NotFound, errors.AlreadyExists):
            return None  # the kind is not served, or it was created meanwhile
    is_suspended = bool((found.get("spec") or {}).get("suspended"))
    if is_controlled_by(found, app.raw) and is_suspended == has_consent:
        found = await client.patch(
            resource, name, {"spec": {"suspended": None if has_consent else True}}
        )
    return URLMonitor.of(found)
