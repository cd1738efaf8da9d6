# SPDX-License-Identifier: Apache-2.0
"""`rdd service reset`: an empty database, the old one kept."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Put the database aside and start again."""
    from rdd.daemon.service.removal import reset

    with translated():
        reset(
            service_for(call),
            wait=call.flags.truth("wait"),
            timeout_s=call.flags.seconds("timeout"),
        )
    return 0
