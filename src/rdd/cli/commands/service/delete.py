# SPDX-License-Identifier: Apache-2.0
"""`rdd service delete`: stop the daemon and delete the instance."""

from rdd.cli.commands.service.calls import working
from rdd.cli.commands.service.preview import goes
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service import arguments
    from rdd.daemon.service.removal import delete

    if arguments.exists(call.instance):
        confirm(call, goes(call, f'the instance "{call.instance.suffix}" with all its data'))
    with working(call, "deleting the instance") as service:
        kept = delete(
            service,
            timeout_s=call.flags.seconds("timeout"),
            use_trash=not call.flags.truth("no-trash"),
        )
    if kept is not None:
        call.log.debug(f"`rdd trash restore {kept.id}` takes it back")
    return 0
