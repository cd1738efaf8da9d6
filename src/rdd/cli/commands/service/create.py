# SPDX-License-Identifier: Apache-2.0
"""`rdd service create`: create an instance with saved arguments without starting it."""

from rdd.cli.commands.service.calls import (
    check_serve_arguments,
    serve_verbosity,
    service_for,
    translated,
)
from rdd.cli.commands.service.declarations import SHARING
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    words = [*call.args, "--controllers", call.flags.text("controllers")]
    if "secure-port" in call.flags.given:
        words += ["--secure-port", str(call.flags.integer("secure-port"))]
    for flag in SHARING:
        if call.flags.text(flag.name):
            words += [f"--{flag.name}", call.flags.text(flag.name)]
    words += serve_verbosity(call)
    check_serve_arguments(words)
    with translated():
        service_for(call).create(words)
    return 0
