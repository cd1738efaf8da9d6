# SPDX-License-Identifier: Apache-2.0
"""`rdd service reset`: restart with an empty database and keep the old one as a backup."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service.removal import reset

    with translated():
        reset(
            service_for(call),
            wait=call.flags.truth("wait"),
            timeout_s=call.flags.seconds("timeout"),
        )
    return 0
