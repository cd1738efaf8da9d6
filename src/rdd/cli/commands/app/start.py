# SPDX-License-Identifier: Apache-2.0
"""`rdd start`: `rdd set running=true`, and where to go next."""

from rdd.cli.commands.app.properties import Assignment
from rdd.cli.commands.app.set import apply
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    apply(call, [Assignment("running", "true")], fetches=call.flags.truth("yes"))
    if not is_json(call):
        call.log.at_least("info").info("open the dashboard with: rdd dashboard")
    return 0
