# SPDX-License-Identifier: Apache-2.0
"""`rdd volumes`: list the volumes of the engine."""

from rdd.api.types import Object
from rdd.cli.commands.engine.objects import age, show
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    return show(
        call,
        "volumes",
        headers=("NAME", "DRIVER", "CREATED"),
        row=_row,
        short=lambda volume: str(volume["status"]["name"]),
        order=lambda volume: volume["status"].get("createdAt", ""),
    )


def _row(volume: Object) -> tuple[str, ...]:
    status = volume["status"]
    return (status["name"], status["driver"], age(status.get("createdAt", "")))
