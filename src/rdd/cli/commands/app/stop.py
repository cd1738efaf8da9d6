# SPDX-License-Identifier: Apache-2.0
"""`rdd stop`: `rdd set running=false`, without creating an App."""

from rdd.cli.commands.app.object import APP
from rdd.cli.commands.app.properties import Assignment
from rdd.cli.commands.app.set import apply
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    with connected(call) as connection:
        is_there = get_or_none(connection, APP) is not None
    if not is_there:
        call.log.info("App does not exist; nothing to stop")
        return 0
    apply(call, [Assignment("running", "false")])
    return 0
