# SPDX-License-Identifier: Apache-2.0
"""`rdd service restore`: replace the database by a copy."""

from rdd.cli.commands.service.calls import working
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service import backups

    with working(call, "restoring the database") as service:
        backups.restore(
            service,
            call.args[0] if call.args else "",
            wait=call.flags.truth("wait"),
            timeout_s=call.flags.seconds("timeout"),
        )
    return 0
