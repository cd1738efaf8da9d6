# SPDX-License-Identifier: Apache-2.0
"""`rdd ps`: list containers."""

from rdd.api.types import Object
from rdd.cli.commands.engine.objects import age, short_id, show
from rdd.cli.framework.types import Call

_HEADERS = ("CONTAINER ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS")
_WIDTH = 30
_ACTIVE = ("running", "paused", "pausing", "restarting")


def run(call: Call) -> int:
    wants_all = call.flags.truth("all")

    def row(container: Object) -> tuple[str, ...]:
        status = container["status"]
        return (
            short_id(container["metadata"]["name"]),
            status["name"],
            _image(status),
            _command(status),
            age(status.get("createdAt", "")),
            _state(status),
            status.get("portSummary", ""),
        )

    return show(
        call,
        "containers",
        headers=_HEADERS,
        row=row,
        short=lambda container: short_id(container["metadata"]["name"]),
        keep=lambda container: wants_all or container["status"].get("status") in _ACTIVE,
        order=lambda container: container["status"].get("createdAt", ""),
    )


def _image(status: Object) -> str:
    """Return the image as it was given; a mirror of an older version has only the ID."""
    name = str(status.get("imageName") or status.get("image", ""))
    return short_id(name) if name.startswith("sha256:") else name


def _command(status: Object) -> str:
    words = " ".join((status.get("path", ""), *(status.get("args") or ())))
    return words if len(words) <= _WIDTH else words[: _WIDTH - 1] + "…"


def _state(status: Object) -> str:
    state = status.get("status", "unknown")
    if state == "running":
        since = age(status.get("startedAt", "")).removesuffix(" ago") or "now"
        health = f" ({status['health']})" if status.get("health") else ""
        return f"running since {since}{health}"
    if state == "exited":
        return f"exited ({status.get('exitCode', 0)}) {age(status.get('finishedAt', ''))}".rstrip()
    return str(state)
