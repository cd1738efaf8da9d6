# SPDX-License-Identifier: Apache-2.0
"""`rdd ls`: list all instances of the user, running or not.

Starts nothing. A control plane that does not respond within two seconds is shown
without its engine.
"""

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rdd.api import names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.commands.app.object import APP
from rdd.cli.framework.connection import conditions_of, connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call
from rdd.daemon.service import record
from rdd.daemon.service.instances import disk_usage, existing, memory_bytes

if TYPE_CHECKING:
    from rdd.instance import Instance

_HEADERS = ("NAME", "STATE", "ENGINE", "PORTS", "DISK", "MEMORY")
_TIMEOUT_S = 2.0


def run(call: Call) -> int:
    as_json = is_json(call)
    selected = call.instance
    with waiting(call, "asking the instances"):
        found = [_describe(call, one) for one in existing(selected.home, selected.system)]
    if as_json:
        call.out.write(json.dumps(found) + "\n")
    else:
        write_table(call, [_HEADERS, *map(_row, found)])
    return 0


def _describe(call: Call, instance: "Instance") -> Object:
    disk = disk_usage(instance)
    daemon = record.read(instance)
    found: Object = {
        "name": instance.suffix,
        "state": daemon.state.name.lower() if daemon else "stopped",
        "engine": "",
        "ports": {},
        "diskBytes": disk.bytes,
        "isDiskComplete": disk.is_complete,
        "memoryBytes": memory_bytes(instance),
    }
    if daemon is not None:
        there = call._replace(environment=call.environment.with_instance(instance.suffix))
        try:
            with connected(there, start=False, timeout_s=_TIMEOUT_S) as connection:
                port = urlsplit(connection.config.server).port
                found["ports"]["api"] = port
                _add_app(found, get_or_none(connection, APP))
        except CommandError as error:
            found["problem"] = str(error)
    return found


def _add_app(found: Object, app: Object | None) -> None:
    if app is None:
        return
    conditions = conditions_of(app)
    is_running = conditions.get(names.RUNNING, {}).get("status") == "True"
    if found["state"] == "ready":
        found["state"] = "running" if is_running else "ready"
    found["engine"] = ((app.get("spec") or {}).get("containerEngine") or {}).get("name", "")
    if port := (app.get("status") or {}).get("kubernetesPort"):
        found["ports"]["kubernetes"] = port


def _row(found: Object) -> tuple[str, ...]:
    state = f"{found['state']}, not responding" if found.get("problem") else found["state"]
    memory = found["memoryBytes"]
    return (
        found["name"],
        state,
        found["engine"] or "-",
        ", ".join(f"{name} {port}" for name, port in found["ports"].items()) or "-",
        ("" if found["isDiskComplete"] else "≥ ") + binary(found["diskBytes"]),
        "-" if not memory else binary(memory),
    )
