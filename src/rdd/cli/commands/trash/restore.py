# SPDX-License-Identifier: Apache-2.0
"""`rdd trash restore`: put a deleted machine or database back.

A whole instance (database and machines) is put back while its control plane is stopped. A machine
is put back by the LimaVM controller, as a reset that takes the instance from the trash: on the
LimaVM of that name if there is one, otherwise on a new one. The machine of the App needs an App,
which is created with the settings of the deleted one if there is none.
"""

import json
from typing import TYPE_CHECKING, Any

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.app.object import APP, app_schema, create
from rdd.cli.commands.app.properties import with_required
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.commands.trash.entries import content, find, trash
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of, follow, get_or_none
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call
from rdd.vm.machine_trash import MACHINE, NAMESPACE, OMITTED, PARAMS, SETTINGS

if TYPE_CHECKING:
    from rdd.client.blocking import Connection
    from rdd.host.trash import TrashEntry


def run(call: Call) -> int:
    entry = find(call, call.args[0])
    there = call._replace(environment=call.environment.with_instance(entry.instance))
    if entry.kind == SETTINGS:
        _restore_settings(there, entry)
    elif entry.kind == MACHINE:
        _restore_machine(there, entry)
    else:
        _restore_instance(there, entry)
    return 0


def _restore_settings(call: Call, entry: "TrashEntry") -> None:
    """Create the App with the settings of a deleted one that had no machine."""
    with limavm.connection_for(call) as connection:
        if get_or_none(connection, APP) is not None:
            raise CommandError(
                "the App exists and keeps its settings; `rdd delete` deletes it first"
            )
        _create_app(call, connection, entry)
    trash(call).remove(entry)


def _restore_instance(call: Call, entry: "TrashEntry") -> None:
    from rdd.daemon.service import arguments
    from rdd.daemon.service.trash import restore

    if arguments.exists(call.instance):
        confirm(
            call,
            [
                f"This restores {content(entry)} of the instance {quote(entry.instance)} and stops "
                "its machines. The present database and machines go to the trash."
            ],
        )
    with translated(), shown(call) as progress:
        progress.phase("restoring")
        restore(service_for(call, progress), entry, wait=call.flags.truth("wait"))


def _restore_machine(call: Call, entry: "TrashEntry") -> None:
    with limavm.connection_for(call) as connection:
        vm = limavm.find_or_none(connection, entry.name)
        if vm is not None:
            _check_driver(call, entry)
            confirm(
                call,
                [
                    f"This stops the machine {quote(entry.name)} and replaces it by the one of the "
                    "trash. The present one goes to the trash."
                ],
            )
        with shown(call) as progress:
            progress.phase("restoring")
            if vm is not None:
                vm = limavm.patch(connection, vm, _request(entry))
            elif entry.name == names.APP_VM_NAME:
                vm = _new_app(call, connection, entry)
            else:
                vm = _new_machine(connection, entry)
            if vm is not None and call.flags.truth("wait"):
                limavm.wait(call, connection, vm, _is_restored, until="restored", progress=progress)
    call.log.info(f"machine {quote(entry.name)} has been restored")


def _request(entry: "TrashEntry") -> Object:
    annotations = limavm.annotation(names.RESET_REQUESTED)["metadata"]["annotations"]
    return {"metadata": {"annotations": {**annotations, names.RESTORE_FROM: entry.id}}}


def _is_restored(vm: Object) -> bool:
    if limavm.has_annotation(vm, names.RESET_REQUESTED):
        return False
    if limavm.has_annotation(vm, names.RESTORE_FROM):
        return False
    if vm["spec"].get("running"):
        return limavm.is_running(vm)
    return conditions_of(vm).get(names.CREATED, {}).get("status") == "True"


def _check_driver(call: Call, entry: "TrashEntry") -> None:
    from rdd.vm.instance_dir import LimaHome

    present = LimaHome(call.instance.lima_home).directory(entry.name).driver
    driver = entry.details.get("driver", "")
    if present and driver and present != driver:
        way = (
            f"`rdd set virtualMachine.type={driver}` changes that"
            if entry.name == names.APP_VM_NAME
            else f"delete it first: rdd limavm delete {entry.name}"
        )
        raise CommandError(
            f"the machine in the trash is of the type {driver}, the present one of the type "
            f"{present}; {way}"
        )


def _new_app(call: Call, connection: "Connection", entry: "TrashEntry") -> Object | None:
    """Create the App, whose controller creates the LimaVM; return that."""
    if get_or_none(connection, APP) is not None:
        raise CommandError("the App has no virtual machine yet; `rdd status` shows why")
    app = _create_app(call, connection, entry, annotations={names.RESTORE_FROM: entry.id})
    if not call.flags.truth("wait"):
        return None
    namespace = app["spec"].get("namespace") or names.DEFAULT_NAMESPACE
    collection = limavm.collection_of(namespace)
    deadline = limavm.deadline_of(call)
    for vm in follow(connection, collection, entry.name, deadline=deadline):
        if vm is not None:
            return vm
    raise CommandError(
        "waiting for the LimaVM of the App: context deadline exceeded", exit_code=TIMED_OUT
    )


def _create_app(
    call: Call,
    connection: "Connection",
    entry: "TrashEntry",
    annotations: dict[str, str] | None = None,
) -> Object:
    """Create the App with the settings of an entry, not running."""
    spec: Object = {"running": False, **_json(entry, SETTINGS)}
    if driver := entry.details.get("driver"):
        spec["virtualMachine"] = {**(spec.get("virtualMachine") or {}), "type": driver}
    app = create(connection, with_required(spec, app_schema(connection)), annotations=annotations)
    call.log.info("App created")
    for path in _json(entry, OMITTED):
        call.log.at_least("info").info(
            f"{path} is not restored, because the trash keeps no credentials; set it again"
        )
    return app


def _json(entry: "TrashEntry", detail: str) -> Any:
    try:
        return json.loads(entry.details.get(detail, "{}"))
    except ValueError as error:
        raise CommandError(f"{entry.id} is damaged: {detail} is not JSON") from error


def _new_machine(connection: "Connection", entry: "TrashEntry") -> Object:
    """Create a LimaVM with the template, the params and the namespace of the deleted one."""
    from rdd.cli.commands.limavm.create import config_maps, own
    from rdd.host.files import read_text

    namespace = entry.details.get(NAMESPACE, names.DEFAULT_NAMESPACE)
    if get_or_none(connection, f"/api/v1/namespaces/{namespace}") is None:
        namespace = names.DEFAULT_NAMESPACE
    text = read_text(entry.path / "lima" / entry.name / "lima.yaml")
    if text is None:
        raise CommandError(f"{entry.id} has no template; it cannot be restored")
    metadata = {"name": entry.name, "namespace": namespace}
    source: Object = connection.request(
        "POST", config_maps(namespace), body={"metadata": metadata, "data": {"template": text}}
    )
    annotations = {names.RESTORE_FROM: entry.id}
    if driver := entry.details.get("driver"):
        annotations[names.DRIVER] = driver
    spec: Object = {"running": False, "templateRef": {"name": entry.name}}
    if params := _json(entry, PARAMS):
        spec["params"] = params
    try:
        vm: Object = connection.request(
            "POST",
            limavm.collection_of(namespace),
            body={
                "apiVersion": f"{names.LIMA_GROUP}/{names.VERSION}",
                "kind": "LimaVM",
                "metadata": {**metadata, "annotations": annotations},
                "spec": spec,
            },
        )
    except BaseException:
        connection.request("DELETE", f"{config_maps(namespace)}/{entry.name}")
        raise
    own(connection, vm, source)
    return vm
