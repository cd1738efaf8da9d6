# SPDX-License-Identifier: Apache-2.0
"""`rdd service stop`: stop the daemon gracefully."""

from rdd.cli.commands.service.calls import working
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    with working(call, "stopping the control plane") as service:
        service.stop(wait=call.flags.truth("wait"), timeout_s=call.flags.seconds("timeout"))
    return 0
