# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm list`: list virtual machines and their state."""

import json

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

_HEADERS = ("NAME", "NAMESPACE", "WANTED", "STATE", "STARTS", "MESSAGE")
_WIDTH = 60


def run(call: Call) -> int:
    as_json = is_json(call)
    with limavm.connection_for(call) as connection:
        items: list[Object] = connection.get(f"{names.LIMA_API}/limavms").get("items") or []
    if as_json:
        call.out.write(json.dumps([_record(vm) for vm in items]) + "\n")
        return 0
    write_table(call, [_HEADERS, *(_row(vm) for vm in items)])
    return 0


def _state(vm: Object) -> tuple[str, str]:
    """Return the reason and message of Created until it is true, then of Running."""
    conditions = conditions_of(vm)
    if vm["metadata"].get("deletionTimestamp"):
        return "Deleting", conditions.get(names.RUNNING, {}).get("message", "")
    created = conditions.get(names.CREATED, {})
    found = conditions.get(names.RUNNING, {}) if created.get("status") == "True" else created
    if conditions.get("Degraded", {}).get("status") == "True" and found.get("status") == "True":
        return "Degraded", conditions["Degraded"]["message"]
    return found.get("reason", "Pending"), found.get("message", "")


def _row(vm: Object) -> tuple[str, ...]:
    reason, message = _state(vm)
    first = message.partition("\n")[0]
    return (
        vm["metadata"]["name"],
        vm["metadata"]["namespace"],
        "running" if vm["spec"].get("running") else "stopped",
        reason,
        str(limavm.starts(vm)),
        first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…",
    )


def _record(vm: Object) -> Object:
    reason, message = _state(vm)
    return {
        "name": vm["metadata"]["name"],
        "namespace": vm["metadata"]["namespace"],
        "wanted": "running" if vm["spec"].get("running") else "stopped",
        "state": reason,
        "message": message,
        "starts": limavm.starts(vm),
        "params": vm["spec"].get("params") or {},
    }
