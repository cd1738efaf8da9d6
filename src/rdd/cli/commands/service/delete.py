# SPDX-License-Identifier: Apache-2.0
"""`rdd service delete`: stop the daemon and delete the instance."""

from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service.removal import delete

    with translated():
        delete(service_for(call), timeout_s=call.flags.seconds("timeout"))
    return 0
