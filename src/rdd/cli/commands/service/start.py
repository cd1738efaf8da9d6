# SPDX-License-Identifier: Apache-2.0
"""`rdd service start`: start the control plane in the background."""

from rdd.cli.commands.service.calls import (
    check_serve_arguments,
    serve_arguments,
    serve_verbosity,
    working,
)
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    chosen = serve_arguments(call)
    words = [*chosen, *serve_verbosity(call), *call.args]
    check_serve_arguments(words)
    with working(call, "starting the control plane") as service:
        service.start(
            words,
            overrides=bool(chosen or call.args),
            wait=call.flags.truth("wait"),
            timeout_s=call.flags.seconds("timeout"),
        )
    return 0
