# SPDX-License-Identifier: Apache-2.0
"""Start the control plane for commands that need it.

Creates a missing instance with the default port, starts a stopped daemon and waits up
to 90 s until it is ready. If it is ready already, this reads two small files.
"""

from typing import TYPE_CHECKING

from rdd.cli.commands.service.calls import serve_verbosity, service_for, translated, working
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.cli.framework.progress import Progress


def ensure_running(call: Call, progress: "Progress | None" = None) -> None:
    """Return when the control plane of the call's instance is ready.

    Raises CommandError: exit code 4 on timeout, 5 when the running daemon has another
    version, 1 with the reason when it does not start. A long start shows its progress, in
    `progress` if that is given.
    """
    if progress is None and not service_for(call).is_ready():
        with working(call, "starting the control plane") as service:
            service.ensure_running(serve_verbosity(call))
        return
    with translated():
        service_for(call, progress).ensure_running(serve_verbosity(call))
