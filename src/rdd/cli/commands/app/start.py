# SPDX-License-Identifier: Apache-2.0
"""`rdd start`: `rdd set running=true`."""

from rdd.cli.commands.app.properties import Assignment
from rdd.cli.commands.app.set import apply
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    apply(call, [Assignment("running", "true")])
    return 0
