# SPDX-License-Identifier: Apache-2.0
"""Lookup and display of containers, images and volumes."""

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.app.object import APPS
from rdd.cli.framework.connection import conditions_of, connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.tables import Row, write_table
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_SHORT = 12
_UNITS = ((365 * 86400, "year"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def mirrored(connection: "Connection", plural: str, namespace: str = "") -> list[Object]:
    """Return the mirrored objects of a resource. Raises CommandError if it is not served."""
    found = get_or_none(connection, f"{names.CONTAINERS_API}/{plural}")
    if found is None:
        raise CommandError(
            f"the control plane does not serve {plural}: start it with the containers "
            "controllers (`rdd service start` with --controllers=* or containers)"
        )
    objects = [obj for obj in found.get("items") or () if obj.get("status")]
    if namespace:
        objects = [obj for obj in objects if obj["status"].get("namespace") == namespace]
    return objects


def show(
    call: Call,
    plural: str,
    *,
    headers: Row,
    row: Callable[[Object], Row],
    short: Callable[[Object], str],
    keep: Callable[[Object], bool] = lambda obj: True,
    order: Callable[[Object], str] = lambda obj: "",
) -> int:
    """Print objects as a table, as JSON, or with `--quiet` only their short names."""
    as_json = is_json(call)
    with connected(call, creates=False) as connection:
        objects = mirrored(connection, plural, call.flags.text("namespace"))
        problem = engine_problem(connection)
    if problem:
        call.log.warning(problem)
    objects = sorted(filter(keep, objects), key=order, reverse=True)
    if as_json:
        shown = [{"objectName": obj["metadata"]["name"], **obj["status"]} for obj in objects]
        call.out.write(json.dumps(shown) + "\n")
    elif call.flags.truth("quiet"):
        call.out.write("".join(f"{name}\n" for name in dict.fromkeys(map(short, objects))))
    else:
        write_table(call, [headers, *map(row, objects)])
    return 0


def engine_problem(connection: "Connection") -> str:
    """Return why the list is empty or stale; empty if the engine is connected."""
    app = get_or_none(connection, f"{APPS}/app")
    ready = conditions_of(app or {}).get(names.ENGINE_READY) or {}
    if ready.get("status") == "True":
        return ""
    why = ready.get("message") or "the virtual machine was not started"
    return f"the container engine is not connected: {why}"


def find_container(connection: "Connection", given: str) -> Object:
    """Return the container with this name, ID or ID prefix. Raises CommandError."""
    objects = mirrored(connection, "containers")
    exact = [obj for obj in objects if given in (obj["metadata"]["name"], obj["status"]["name"])]
    found = exact or [obj for obj in objects if obj["metadata"]["name"].startswith(given)]
    if not found or not given:
        hint = engine_problem(connection) or did_you_mean(
            given, [obj["status"]["name"] for obj in objects]
        )
        raise CommandError(f"no such container: {quote(given)}" + (hint and f"; {hint}"))
    if len(found) > 1:
        names = ", ".join(sorted(obj["status"]["name"] for obj in found))
        raise CommandError(f"{quote(given)} is not unique: {names}")
    return found[0]


def short_id(id_: str) -> str:
    """Return the first 12 digits of an ID."""
    return id_.removeprefix("sha256:")[:_SHORT]


def age(timestamp: str, *, now: float | None = None) -> str:
    """Return the age of a timestamp in its largest unit, such as `3 hours ago`."""
    from datetime import datetime

    try:
        then = datetime.fromisoformat(timestamp).timestamp()
    except ValueError:  # missing, or written by another client
        return ""
    if not then:  # the volume driver records no date
        return ""
    passed = max(0, int((time.time() if now is None else now) - then))
    for seconds, unit in _UNITS:
        count = passed // seconds
        if count:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "now"
