# SPDX-License-Identifier: Apache-2.0
"""`rdd service reset`: restart with an empty database; the old one goes to the trash."""

from rdd.cli.commands.service.calls import translated, working
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.cli.commands.preview import fate, machine_paths, space
    from rdd.daemon.service import arguments
    from rdd.daemon.service.removal import require_resettable, reset

    if arguments.exists(call.instance):
        with translated():
            require_resettable(call.instance)
        database, machines = call.instance.database.parent, machine_paths(call.instance)
        used = space([database, *machines.values()])
        confirm(
            call,
            [
                f"This replaces the database by an empty one: the App with its settings and all "
                f"other objects, and deletes the machines with their containers, images and "
                f"volumes, {used}.",
                fate(call, [database, *machines.values()]),
            ],
        )
    with working(call, "resetting the control plane") as service:
        reset(
            service,
            wait=call.flags.truth("wait"),
            timeout_s=call.flags.seconds("timeout"),
            use_trash=not call.flags.truth("no-trash"),
        )
    return 0
