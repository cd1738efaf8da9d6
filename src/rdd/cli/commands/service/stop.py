# SPDX-License-Identifier: Apache-2.0
"""`rdd service stop`: stop the daemon gracefully."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    with translated():
        service_for(call).stop(
            wait=call.flags.truth("wait"), timeout_s=call.flags.seconds("timeout")
        )
    return 0
