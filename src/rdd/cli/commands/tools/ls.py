# SPDX-License-Identifier: Apache-2.0
"""`rdd tools ls`: list the tools of the catalogue and what of them is installed."""

import json

from rdd.base.sizes import binary
from rdd.cli.commands.tools.selection import monitored_catalogue, toolbox_of
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

_HEADERS = ("TOOL", "INSTALLED", "SIZE", "NEWEST KNOWN", "LICENCE", "DESCRIPTION")


def run(call: Call) -> int:
    as_json = is_json(call)
    toolbox = toolbox_of(call)
    objects, rows = [], []
    for name, tool in sorted(monitored_catalogue(call).tools.items()):
        versions = toolbox.installed(name)
        size = sum(one.size_bytes for one in versions)
        objects.append(
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
                    for one in versions
                ],
            }
        )
        shown = [f"{one.version}*" if one.is_current else one.version for one in versions]
        rows.append(
            (
                name,
                " ".join(shown) or "-",
                binary(size) if size else "-",
                tool.latest,
                tool.license,
                tool.title,
            )
        )
    if as_json:
        call.out.write(json.dumps(objects) + "\n")
    else:
        write_table(call, [_HEADERS, *rows])
    return 0
