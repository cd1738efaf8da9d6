# SPDX-License-Identifier: Apache-2.0
"""`rdd reset`: make the virtual machine of the App anew; its settings stay."""

from rdd.cli import app_vm
from rdd.cli.api import connected, get_or_none
from rdd.cli.app_object import APP
from rdd.cli.progress import shown
from rdd.cli.set import show
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Reset the App's virtual machine."""
    with shown(call) as progress, connected(call) as connection:
        app = app_vm.existing_app(connection)
        app_vm.request(call, connection, app, app_vm.RESET, progress)
        show(call, get_or_none(connection, APP) or app)
    return 0
