# SPDX-License-Identifier: Apache-2.0
"""Commands that need a control plane start it themselves.

A missing instance is created with the default port, a daemon that does not run is
started, and the command waits until it is ready, at most 90 s. When it is ready
already, this costs reading two small files.
"""

from rdd.cli.commands.service.calls import serve_verbosity, service_for, translated
from rdd.cli.framework.types import Call


def ensure_running(call: Call) -> None:
    """Return when the control plane of the call's instance is ready.

    Raises CommandError: exit code 4 at the deadline, 5 when the daemon that runs is
    of another version, 1 with the reason when it does not start.
    """
    with translated():
        service_for(call).ensure_running(serve_verbosity(call))
