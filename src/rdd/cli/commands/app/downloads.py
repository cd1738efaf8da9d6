# SPDX-License-Identifier: Apache-2.0
"""The question whether a missing program may be fetched: what, from where, how large.

Consent is an annotation of the App, which holds for one fetch.
"""

import asyncio
import sys
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.commands.app.object import APP
from rdd.cli.framework.confirm import agreed
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_RESOURCES = f"{names.RDD_API}/resources"


def approve(call: Call, connection: "Connection", app: Object) -> bool:
    """Ask, and return whether the program will be fetched."""
    sources = _sources(connection, app["spec"])
    lines = [f"  {url} ({_size(call, url, app)})" for url in sources]
    sys.stderr.write(
        "".join(f"{line}\n" for line in [conditions_of(app)[names.SETTLED]["message"], *lines])
        + "Fetch it now? [y/N] "
    )
    sys.stderr.flush()
    if not agreed():
        return False
    from rdd.api.mediatypes import MERGE_PATCH

    consent = {"metadata": {"annotations": {names.DOWNLOADS_APPROVED: "true"}}}
    connection.request("PATCH", APP, body=consent, content_type=MERGE_PATCH)
    return True


def _sources(connection: "Connection", spec: Object) -> list[str]:
    """Return the URLs of what the settings need and the cache does not have."""
    from rdd.controllers.app.k3s_versions_table import label_of

    selectors = []
    if spec["kubernetes"].get("enabled"):
        version = label_of(spec["kubernetes"]["version"])
        selectors.append(f"{names.KUBERNETES_VERSION_LABEL}={version}")
    if version := spec["containerEngine"].get("version"):
        selectors.append(f"{names.TOOL}=engine,{names.TOOL_VERSION}={version}")
    found = []
    for selector in selectors:
        listed = connection.request("GET", _RESOURCES, query={"labelSelector": selector})
        found += [
            item["spec"]["url"]
            for item in listed.get("items") or []
            if (item.get("status") or {}).get("status") != "cached"
        ]
    return found


def _size(call: Call, url: str, app: Object) -> str:
    from rdd.fetch.fetching import remote_size
    from rdd.fetch.network import Network
    from rdd.profiles.current import sources_of

    network = Network.of_settings(app.get("spec") or {}, sources_of(call.instance))
    size = asyncio.run(remote_size(url, network=network))
    return "size unknown" if size is None else binary(size)
