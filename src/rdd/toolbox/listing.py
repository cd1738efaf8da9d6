# SPDX-License-Identifier: Apache-2.0
"""The list of tools, for people and programs: what there is, and what of it is installed.

The newest known versions are those of the publishers' lists, where URLMonitors have read them.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rdd.toolbox.catalogue import Catalogue
from rdd.toolbox.installation import Toolbox

_MAX_VERSIONS: Final = 50
"""The newest ones of a list count."""


def tools_of(catalogue: Catalogue) -> Catalogue:
    """Return the tools without those that `kubernetes.version` selects."""
    tools = catalogue.tools
    return Catalogue({name: tool for name, tool in tools.items() if tool.role != "kubernetes"})


def with_lists(catalogue: Catalogue, monitors: Iterable[Mapping[str, Any]]) -> Catalogue:
    """Return a catalogue with the versions of the lists that URLMonitors have read. Blocking."""
    wanted = {tool.releases_url for tool in catalogue.tools.values()}
    texts: dict[str, str] = {}
    for monitor in monitors:
        url, path = monitor["spec"]["url"], (monitor.get("status") or {}).get("localPath")
        if path and url in wanted:
            with suppress(OSError):  # it left the cache: the next check restores it
                texts[url] = Path(path).read_text("utf-8", "replace")
    return catalogue.with_versions(
        {
            name: tool.find_versions(texts[tool.releases_url])[-_MAX_VERSIONS:]
            for name, tool in catalogue.tools.items()
            if tool.releases_url in texts
        }
    )


def described(catalogue: Catalogue, toolbox: Toolbox) -> list[dict[str, Any]]:
    """Return all tools by name, as `rdd tools ls -o json` and `/service/tools` have them."""
    return [
        {
            "name": name,
            "title": tool.title,
            "role": tool.role,
            "license": tool.license,
            "homepage": tool.homepage,
            "versions": list(tool.versions),
            "installed": [
                {
                    "version": one.version,
                    "isCurrent": one.is_current,
                    "path": str(one.directory),
                    "programs": list(one.programs),
                    "sizeBytes": one.size_bytes,
                }
                for one in toolbox.installed(name)
            ],
        }
        for name, tool in sorted(catalogue.tools.items())
    ]
