# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm snapshot`: manage disk snapshots of a stopped virtual machine."""

import json
import time
from typing import TYPE_CHECKING
from urllib.parse import quote as in_path

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_PREFIX = f"{names.PASSTHROUGH_PREFIX}limavm/disks"


def disk_request(connection: "Connection", method: str, *words: str) -> Object:
    """Send a request to the disk endpoint and return the state of the disk."""
    path = "/".join([_PREFIX, *(in_path(word, safe="") for word in words)])
    answer: Object = connection.request(method, path)
    return answer


def create(call: Call) -> int:
    return _do(call, "POST", done="created")


def restore(call: Call) -> int:
    return _do(call, "POST", "restore", done="restored", goes="changes since the snapshot")


def delete(call: Call) -> int:
    return _do(call, "DELETE", done="deleted", goes="the snapshot")


def show(call: Call) -> int:
    as_json = is_json(call)
    (name,) = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        found = disk_request(connection, "GET", name)["snapshots"]
    if as_json:
        call.out.write(json.dumps([_record(one) for one in found]) + "\n")
        return 0
    width = max([len("NAME"), *(len(one["name"]) for one in found)])
    call.out.write(f"{'NAME':<{width}}  CREATED\n")
    for one in found:
        call.out.write(f"{one['name']:<{width}}  {_record(one)['creationTime']}\n")
    return 0


_ACTIONS = {"create": create, "restore": restore, "delete": delete, "list": show}


def run(call: Call) -> int:
    """Run the subcommand."""
    return _ACTIONS[call.path[-1]](call)


def _record(snapshot: Object) -> Object:
    made = time.gmtime(snapshot["creationTime"])
    return {"name": snapshot["name"], "creationTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", made)}


def _do(call: Call, method: str, *more: str, done: str, goes: str = "") -> int:
    name, snapshot = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        if goes:
            confirm(call, [f"This deletes {goes} {quote(snapshot)} of the machine {quote(name)}."])
        with waiting(call, f"snapshot {snapshot}"):
            disk_request(connection, method, name, "snapshots", snapshot, *more)
    call.log.info(f"Snapshot {quote(snapshot)} of LimaVM {quote(name)} {done}")
    return 0
