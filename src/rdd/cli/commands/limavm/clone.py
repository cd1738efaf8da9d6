# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm clone`: copy the template and the disk of a virtual machine."""

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Clone a stopped virtual machine and wait until the clone is created."""
    name, new = call.args
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        if not limavm.is_stopped(vm):
            raise CommandError(f"LimaVM {quote(name)} must be stopped to be cloned")
        copy = (vm.get("status") or {}).get("templateConfigMap")
        if not copy:
            raise CommandError(f"LimaVM {quote(name)} has no template yet")
        namespace = vm["metadata"]["namespace"]
        spec: Object = {"running": False, "templateRef": {"name": copy, "namespace": namespace}}
        if params := vm["spec"].get("params"):
            spec["params"] = params
        made: Object = connection.request(
            "POST",
            limavm.collection_of(namespace),
            body={
                "apiVersion": vm["apiVersion"],
                "kind": vm["kind"],
                "metadata": {
                    "name": new,
                    "namespace": namespace,
                    "annotations": {names.CLONE_OF: name},
                },
                "spec": spec,
            },
        )
        if call.flags.truth("wait"):
            limavm.wait(call, connection, made, _is_made, until="created", progress=progress)
        call.log.info(f"LimaVM {quote(new)} is a clone of {quote(name)}")
    return 0


def _is_made(vm: Object) -> bool:
    return conditions_of(vm).get(names.CREATED, {}).get("status") == "True"
