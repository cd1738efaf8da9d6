# SPDX-License-Identifier: Apache-2.0
"""`rdd restart`: restart the virtual machine of the App, or start it if it is stopped."""

from rdd.api import names
from rdd.cli.commands.app import machine as app_vm
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.app.properties import Assignment
from rdd.cli.commands.app.set import apply, show
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    with connected(call, creates=False) as connection:
        app = app_vm.existing_app(connection)
        is_running = bool(app["spec"].get("running"))
    if not is_running:
        apply(call, [Assignment("running", "true")])
        return 0
    with shown(call) as progress, connected(call, progress=progress) as connection:
        app_vm.request(call, connection, app, names.RESTART_REQUESTED, progress)
        show(call, get_or_none(connection, APP) or app)
    return 0
