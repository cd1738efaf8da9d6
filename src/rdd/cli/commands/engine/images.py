# SPDX-License-Identifier: Apache-2.0
"""`rdd images`: list the images of the engine, one line per tag."""

from rdd.api.types import Object
from rdd.base.sizes import decimal
from rdd.cli.commands.engine.objects import age, short_id, show
from rdd.cli.framework.types import Call

_HEADERS = ("REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE")


def run(call: Call) -> int:
    return show(
        call,
        "images",
        headers=_HEADERS,
        row=_row,
        short=lambda image: short_id(image["status"]["id"]),
        order=lambda image: image["status"].get("createdAt", ""),
    )


def _row(image: Object) -> tuple[str, ...]:
    status = image["status"]
    repository, _, tag = status.get("repoTag", "").rpartition(":")
    return (
        repository or "<none>",
        tag or "<none>",
        short_id(status["id"]),
        age(status.get("createdAt", "")),
        decimal(status["size"]),
    )
