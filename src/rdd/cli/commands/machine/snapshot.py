# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm snapshot`: named states of the disk of a stopped virtual machine."""

import json
import time
from typing import TYPE_CHECKING
from urllib.parse import quote as in_path

from rdd.base.gotext import quote
from rdd.cli.commands.machine import object as limavm
from rdd.cli.framework.connection import Object
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.kubectl.connection import Connection

_PREFIX = "/passthrough/limavm/disks"


def ask(connection: "Connection", method: str, *words: str) -> Object:
    """The disk of a virtual machine after something was done to it."""
    path = "/".join([_PREFIX, *(in_path(word, safe="") for word in words)])
    answer: Object = connection.request(method, path)
    return answer


def create(call: Call) -> int:
    """Keep the present state of the disk under a name."""
    return _do(call, "POST", done="created")


def restore(call: Call) -> int:
    """Go back to a snapshot."""
    return _do(call, "POST", "restore", done="restored")


def delete(call: Call) -> int:
    """Forget a snapshot."""
    return _do(call, "DELETE", done="deleted")


def show(call: Call) -> int:
    """Print the snapshots of a virtual machine."""
    as_json = is_json(call)
    (name,) = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        found = ask(connection, "GET", name)["snapshots"]
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
    """Do what the last word of the command says."""
    return _ACTIONS[call.path[-1]](call)


def _record(snapshot: Object) -> Object:
    made = time.gmtime(snapshot["creationTime"])
    return {"name": snapshot["name"], "creationTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", made)}


def _do(call: Call, method: str, *more: str, done: str) -> int:
    name, snapshot = call.args
    with limavm.connection_for(call) as connection:
        limavm.find(connection, name)
        ask(connection, method, name, "snapshots", snapshot, *more)
    call.log.info(f"Snapshot {quote(snapshot)} of LimaVM {quote(name)} {done}")
    return 0
