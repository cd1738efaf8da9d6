# SPDX-License-Identifier: Apache-2.0
"""`rdd service install`: install a login service for the control plane."""

from typing import TYPE_CHECKING

from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.daemon.service.login import LoginService


def run(call: Call) -> int:
    """Create the instance if it does not exist and install its login service."""
    from rdd.cli.commands.service.calls import service_for, translated
    from rdd.daemon.service import arguments

    entry = login_service(call)
    entry.check_manager()
    with translated():
        service = service_for(call)
        if not arguments.exists(service.instance):
            service.create()
    entry.install()
    call.log.info(
        f'"{call.instance.name}" control plane will start at login ("{entry.path}"); '
        "start it now with `rdd service start`"
    )
    return 0


def login_service(call: Call) -> "LoginService":
    from rdd.daemon.service.login import LoginService

    return LoginService(call.instance, call.program.command, call.environment.variables)
