# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm disk`: show, grow and trim the disk of a virtual machine."""

import json
import re

from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.commands.limavm.snapshot import disk_request
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

_DISK_LINE = re.compile(r"^disk:.*$", re.MULTILINE)
_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?([KMGT]i?)?B?")


def show(call: Call) -> int:
    as_json = is_json(call)
    (name,) = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        found = disk_request(connection, "GET", name)
    if as_json:
        call.out.write(json.dumps(found) + "\n")
        return 0
    rows = {
        "size in the guest": binary(found["virtualBytes"]),
        "used on the host": binary(found["actualBytes"]),
        "base image": binary(found["imageBytes"]),
        "snapshots": str(len(found["snapshots"])),
        "suspended": "yes" if found["suspended"] else "no",
    }
    width = max(map(len, rows))
    for key, value in rows.items():
        call.out.write(f"{key:<{width}}  {value}\n")
    return 0


def grow(call: Call) -> int:
    """Grow a disk by changing the size in the template."""
    name, size = call.args
    if not _SIZE.fullmatch(size):
        raise CommandError(f"{quote(size)} is not a size; write for example 120GiB")
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        copy = (vm.get("status") or {}).get("templateConfigMap")
        if not copy:
            raise CommandError(f"LimaVM {quote(name)} has no template yet")
        path = f"/api/v1/namespaces/{vm['metadata']['namespace']}/configmaps/{copy}"
        config_map: Object = connection.get(path)
        text = config_map["data"]["template"]
        line = f'disk: "{size}"'
        changed, count = _DISK_LINE.subn(line, text, count=1)
        body = {
            "metadata": {"resourceVersion": config_map["metadata"]["resourceVersion"]},
            "data": {"template": changed if count else f"{text.rstrip()}\n{line}\n"},
        }
        from rdd.api.mediatypes import MERGE_PATCH

        written: Object = connection.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        version = written["metadata"]["resourceVersion"]
        if call.flags.truth("wait"):
            limavm.wait(
                call,
                connection,
                vm,
                lambda vm: _uses(vm, version),
                until="using the larger disk",
                progress=progress,
            )
    return 0


def trim(call: Call) -> int:
    (name,) = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        before = disk_request(connection, "GET", name)["actualBytes"]
        disk_request(connection, "POST", name, "trim")
        after = disk_request(connection, "GET", name)["actualBytes"]
    call.log.info(
        f"The disk of LimaVM {quote(name)} uses {binary(after)}, "
        f"{binary(max(0, before - after))} less than before"
    )
    return 0


_ACTIONS = {"show": show, "grow": grow, "trim": trim}


def run(call: Call) -> int:
    """Run the subcommand."""
    return _ACTIONS[call.path[-1]](call)


def _uses(vm: Object, version: str) -> bool:
    status = vm.get("status") or {}
    is_seen = status.get("observedTemplateResourceVersion") == version
    return is_seen and not status.get("restartNeeded")
