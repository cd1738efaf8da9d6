# SPDX-License-Identifier: Apache-2.0
"""`rdd service serve`: the control plane in the foreground.

The pid file names this process from the moment the control plane answers until
it ends; scripts that started it in the background find it there.
"""

import os
from pathlib import Path

from rdd.cli.errors import CommandError
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Serve until interrupted."""
    from rdd.cli.log_handler import forward_logging
    from rdd.cli.version import version
    from rdd.daemon import loop
    from rdd.daemon.control_plane import Running, ServeOptions, run_until_signalled
    from rdd.store.types import StoreError

    port = call.flags.integer("secure-port")
    if not 0 <= port <= 65535:
        raise CommandError(f"invalid --secure-port {port}; allowed: 0 to 65535 (0: any free port)")
    instance = call.instance
    options = ServeOptions(
        secure_port=port,
        builtin_controllers=call.flags.text("builtin-controllers"),
        version=version(),
    )
    forward_logging(call.log)

    def on_ready(running: Running) -> None:
        instance.pid_file.write_text(str(os.getpid()))
        call.log.info(f'"{instance.name}" control plane is ready on https://{running.address}')

    try:
        with loop.runner() as runner:
            runner.run(run_until_signalled(instance, options, on_ready=on_ready))
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        _forget_pid(instance.pid_file)
    return 0


def _forget_pid(path: Path) -> None:
    try:
        if path.read_text() == str(os.getpid()):
            path.unlink()
    except OSError:
        return
