# SPDX-License-Identifier: Apache-2.0
"""`rdd doctor`: run all checks now, with or without a daemon.

The daemon runs the same checks continuously and stores the results in Diagnostic
objects; here they run with the environment and the files of the calling user.
"""

import json

from rdd.api.types import Object
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.service.calls import service_for
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import FAILED, CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Print the findings; exit with 1 if a check fails."""
    from pathlib import Path

    from rdd.controllers.app.diagnostics import checks
    from rdd.controllers.app.diagnostics.findings import Facts

    as_json = is_json(call)
    instance = call.instance
    app, problem = _app(call)
    home = Path(call.environment.variables.get("HOME", "/"))
    facts = Facts(instance, home, call.environment.variables, app)
    found: list[Object] = [problem] if problem else []
    for name in checks.CHECKS:
        finding = checks.run(name, facts)
        found.append(
            {
                "name": name,
                "healthy": finding.healthy,
                "reason": finding.reason,
                "message": finding.message,
                "evidence": list(finding.evidence),
                "nextStep": finding.next_step,
            }
        )
    call.out.write(json.dumps(found) + "\n" if as_json else render(found))
    return FAILED if any(entry["healthy"] == "False" for entry in found) else 0


def _app(call: Call) -> tuple[Object | None, Object | None]:
    """Return the App, and a finding if the control plane could not return it."""
    if service_for(call).running() is None:
        return None, {
            "name": "control-plane",
            "healthy": "Unknown",
            "reason": "NotRunning",
            "message": "The control plane is not running.",
            "evidence": [],
            "nextStep": "rdd start",
        }
    try:
        with connected(call, start=False) as connection:
            return get_or_none(connection, APP), None
    except CommandError as error:
        return None, {
            "name": "control-plane",
            "healthy": "False",
            "reason": "NotAnswering",
            "message": "The control plane is running but does not respond.",
            "evidence": [str(error)],
            "nextStep": "rdd service log; rdd service stop; rdd service start",
        }


_MARKS = {"True": "✓", "False": "✗", "Unknown": "?"}


def render(found: list[Object]) -> str:
    width = max(len(entry["name"]) for entry in found)
    lines = []
    for entry in found:
        lines.append(f"{_MARKS[entry['healthy']]} {entry['name']:<{width}}  {entry['message']}")
        if entry["healthy"] != "True":
            lines += [f"  {'':<{width}}  {line}" for line in entry["evidence"]]
            if entry["nextStep"]:
                lines.append(f"  {'':<{width}}  next step: {entry['nextStep']}")
    return "\n".join(lines) + "\n"
