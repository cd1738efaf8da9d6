# SPDX-License-Identifier: Apache-2.0
"""`rdd stop`: `rdd set running=false`, without creating an App."""

from rdd.cli.commands.app.machine import has_app
from rdd.cli.commands.app.properties import Assignment
from rdd.cli.commands.app.set import apply
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    if not has_app(call):
        call.log.info("App does not exist; nothing to stop")
        return 0
    apply(call, [Assignment("running", "false")])
    return 0
