# SPDX-License-Identifier: Apache-2.0
"""`rdd doctor`: run all checks now, with or without a daemon.

The daemon runs most of them as well and stores the results in Diagnostic objects; here they
run with the environment and the files of the calling user.
"""

import json

from rdd.api.types import Object
from rdd.cli.commands.diagnosis import diagnose, read_app
from rdd.cli.commands.service.calls import service_for
from rdd.cli.framework.environment import terminal_width
from rdd.cli.framework.errors import FAILED
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain
from rdd.cli.framework.wrapping import columns, unbroken

_MARKS = {"True": "✓", "False": "✗", "Unknown": "?"}


def run(call: Call) -> int:
    """Print the findings; exit with 1 if a check fails."""
    as_json = is_json(call)
    with waiting(call, "running the checks"):
        daemon = service_for(call).running()
        found = diagnose(call, daemon, read_app(call, daemon))
    text = json.dumps(found) + "\n" if as_json else render(found, terminal_width(call.out))
    call.out.write(text)
    return FAILED if any(entry["healthy"] == "False" for entry in found) else 0


def render(found: list[Object], width: int = 0) -> str:
    """Return the findings as text that fits in `width` columns; 0 means no limit."""
    names = max(len(entry["name"]) for entry in found)
    rows = []
    for entry in found:
        rows.append(
            (f"{_MARKS[entry['healthy']]} {entry['name']:<{names}}", plain(entry["message"]))
        )
        if entry["healthy"] != "True":
            evidence = [line for line in entry["evidence"] if line != entry["message"]]
            rows += [("", plain(line)) for line in evidence]
            if entry["nextStep"]:
                rows.append(("", f"next step: {unbroken(entry['nextStep'])}"))
    return "".join(f"{line}\n" for line in columns(rows, width, margin=""))
