# SPDX-License-Identifier: Apache-2.0
"""`rdd service stop`: end the daemon in order."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Stop the daemon if it runs, and wait for its end unless told not to."""
    with translated():
        service_for(call).stop(
            wait=call.flags.truth("wait"), timeout_s=call.flags.seconds("timeout")
        )
    return 0
