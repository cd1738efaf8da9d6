# SPDX-License-Identifier: Apache-2.0
"""`rdd ps`: list containers."""

from rdd.api.types import Object
from rdd.cli.commands.engine.objects import age, mirrored, short_id, show
from rdd.cli.framework.connection import connected
from rdd.cli.framework.types import Call

_HEADERS = ("CONTAINER ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS")
_WIDTH = 30
_ACTIVE = ("running", "paused", "pausing", "restarting")


def run(call: Call) -> int:
    wants_all = call.flags.truth("all")
    tags = _tags(call)

    def row(container: Object) -> tuple[str, ...]:
        status = container["status"]
        image = status.get("image", "")
        return (
            short_id(container["metadata"]["name"]),
            status["name"],
            tags.get(image) or (short_id(image) if image.startswith("sha256:") else image),
            _command(status),
            age(status.get("createdAt", "")),
            _state(status),
            _ports(status),
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


def _tags(call: Call) -> dict[str, str]:
    """Return the first tag of each image, by ID."""
    if call.flags.truth("quiet") or call.flags.text("output") == "json":
        return {}
    with connected(call) as connection:
        images = mirrored(connection, "images")
    tagged = [image["status"] for image in images if image["status"].get("repoTag")]
    ordered = sorted(tagged, key=lambda status: str(status["repoTag"]), reverse=True)
    return {status["id"]: status["repoTag"] for status in ordered}


def _command(status: Object) -> str:
    words = " ".join((status.get("path", ""), *(status.get("args") or ())))
    return words if len(words) <= _WIDTH else words[: _WIDTH - 1] + "…"


def _state(status: Object) -> str:
    state = status.get("status", "unknown")
    if state == "running":
        return f"running since {age(status.get('startedAt', '')).removesuffix(' ago') or 'now'}"
    if state == "exited":
        return f"exited ({status.get('exitCode', 0)}) {age(status.get('finishedAt', ''))}".rstrip()
    return str(state)


def _ports(status: Object) -> str:
    shown = []
    for port in status.get("ports") or ():
        bindings = port.get("bindings") or ()
        shown += [f"{b['hostIP']}:{b['hostPort']}->{port['name']}" for b in bindings]
        if not bindings:
            shown.append(port["name"])
    return ", ".join(shown)
