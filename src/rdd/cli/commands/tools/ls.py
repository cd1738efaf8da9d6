# SPDX-License-Identifier: Apache-2.0
"""`rdd tools ls`: list the tools of the catalogue and what of them is installed."""

import json
from typing import Any

from rdd.base.sizes import binary
from rdd.cli.commands.tools.selection import monitored_catalogue, toolbox_of
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call
from rdd.toolbox.listing import described

_HEADERS = ("TOOL", "INSTALLED", "SIZE", "NEWEST KNOWN", "LICENCE", "DESCRIPTION")


def run(call: Call) -> int:
    as_json = is_json(call)
    tools = described(monitored_catalogue(call), toolbox_of(call))
    if as_json:
        call.out.write(json.dumps(tools) + "\n")
    else:
        write_table(call, [_HEADERS, *map(_row, tools)])
    return 0


def _row(tool: dict[str, Any]) -> tuple[str, ...]:
    versions = tool["installed"]
    size = sum(one["sizeBytes"] for one in versions)
    shown = [f"{one['version']}*" if one["isCurrent"] else one["version"] for one in versions]
    return (
        tool["name"],
        " ".join(shown) or "-",
        binary(size) if size else "-",
        tool["versions"][-1],
        tool["license"],
        tool["title"],
    )
