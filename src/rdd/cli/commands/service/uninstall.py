# SPDX-License-Identifier: Apache-2.0
"""`rdd service uninstall`: remove the login service."""

from rdd.cli.commands.service.install import login_service
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Remove the login service; a running control plane keeps running."""
    entry = login_service(call)
    name = call.instance.name
    if entry.uninstall():
        call.log.info(f'"{name}" control plane will not start at login any more')
    else:
        call.log.info(f'"{name}" control plane was not installed')
    return 0
