# SPDX-License-Identifier: Apache-2.0
"""`rdd service uninstall`: do not start the control plane at login any more."""

from rdd.cli.commands.service.install import login_service
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Remove the entry from the login supervisor; a running control plane is left alone."""
    entry = login_service(call)
    name = call.instance.name
    if entry.uninstall():
        call.log.info(f'"{name}" control plane will not start at login any more')
    else:
        call.log.info(f'"{name}" control plane was not installed')
    return 0
