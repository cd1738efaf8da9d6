# SPDX-License-Identifier: Apache-2.0
"""`rdd reset`: recreate the virtual machine of the App; keep its settings."""

from rdd.api import names
from rdd.cli.commands.app import machine as app_vm
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.app.set import show
from rdd.cli.commands.limavm.object import trash_annotations
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    with connected(call, creates=False) as connection:
        app = app_vm.existing_app(connection)
        confirm(call, app_vm.goes(call, connection, "the machine of the App", "the machine"))
        with shown(call) as progress:
            app_vm.request(
                call,
                connection,
                app,
                names.RESET_REQUESTED,
                progress,
                trash_annotations(call),
            )
            show(call, get_or_none(connection, APP) or app)
    return 0
