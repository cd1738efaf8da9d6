# SPDX-License-Identifier: Apache-2.0
"""`rdd logs`: stream the output of a container."""

import sys
from urllib.parse import urlencode

from rdd.api import names
from rdd.base.gotext import quote
from rdd.cli.commands.engine.objects import find_container
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

_PIECE = 65536


def run(call: Call) -> int:
    flags = call.flags
    tail = flags.text("tail")
    if tail != "all" and not tail.isdigit():
        raise CommandError(f"invalid value {quote(tail)} for --tail: a number, or all")
    query = {
        "follow": "true" if flags.truth("follow") else "false",
        "tail": tail,
        "timestamps": "true" if flags.truth("timestamps") else "false",
    }
    if flags.text("since"):
        query["since"] = flags.text("since")
    left: BrokenPipeError | None = None
    with connected(call, creates=False) as connection:
        id_ = find_container(connection, call.args[0])["metadata"]["name"]
        path = f"{names.PASSTHROUGH_PREFIX}engine/logs/{id_}?{urlencode(query)}"
        with connection.forward("GET", path, [], None) as response:
            if response.status != 200:
                raise CommandError(response.read().decode("utf-8", "replace").strip())
            call.out.flush()
            output = getattr(call.out, "buffer", sys.stdout.buffer)
            try:
                while piece := response.read1(_PIECE):
                    output.write(piece)
                    output.flush()
            except BrokenPipeError as error:
                left = error  # raised after the block, which would report a connection failure
    if left is not None:
        raise left
    return 0
