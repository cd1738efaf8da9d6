# SPDX-License-Identifier: Apache-2.0
"""`rdd snapshot create`: save the App, a machine, a namespace or the whole instance."""

from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.commands.preview import space
from rdd.cli.commands.snapshot import object as snapshots
from rdd.cli.commands.snapshot.continuing import wait_continued
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.errors import REJECTED, CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.vm.instance_dir import InstanceDirectory

_SCOPES = "app, limavm/NAME, namespace/NAME and instance"
_KINDS = {"app": "App", "limavm": "LimaVM", "namespace": "Namespace", "instance": "Instance"}
_NAMED = ("limavm", "namespace")


def run(call: Call) -> int:
    from rdd.host.errors import HostError
    from rdd.vm.snapshots.store import check_name

    (name,) = call.args
    scope = _scope(call.flags.text("scope"))
    try:
        check_name(name)
    except HostError as error:
        raise CommandError(str(error), exit_code=REJECTED) from error
    with snapshots.connection_for(call) as connection:
        confirm(call, _effects(call, scope))
        with shown(call) as progress:
            progress.phase("saving")
            body = snapshots.body_of(name, scope, call.flags.text("description"))
            made: Object = connection.request("POST", snapshots.COLLECTION, body=body)
            if not call.flags.truth("wait"):
                return 0
            made = snapshots.wait_ready(call, connection, made, progress)
            wait_continued(call, connection, made["status"].get("machines") or (), progress)
    status = made["status"]
    how = f", by {status['method']}" if status.get("method") else ""
    call.log.info(f"snapshot {quote(name)} has been created: {binary(status['size'])}{how}")
    return 0


def _scope(text: str) -> Object:
    kind, _, name = text.partition("/")
    if kind not in _KINDS or bool(name) is not (kind in _NAMED):
        raise CommandError(f"--scope: {quote(text)} is no scope: allowed are {_SCOPES}")
    return {"kind": _KINDS[kind], **({"name": name} if name else {})}


def _effects(call: Call, scope: Object) -> list[str]:
    """Return what the snapshot interrupts, and how much it copies."""
    from rdd.vm.instance_dir import InstanceStatus, LimaHome

    home = LimaHome(call.instance.lima_home)
    wanted = {
        "App": [names.APP_VM_NAME],
        "LimaVM": [scope.get("name", "")],
        "Instance": home.names(),
    }.get(scope["kind"], [])
    lines = []
    for name in wanted:
        directory = home.directory(name)
        if not directory.exists():
            continue
        running = directory.status() is InstanceStatus.RUNNING
        lines.append(
            f"{'This stops the' if running else 'The'} machine {quote(name)}"
            f"{' while it is saved, with its containers;' if running else ':'} "
            f"{_amount(call, directory)}."
        )
    return lines or ["No machine is stopped."]


def _amount(call: Call, directory: "InstanceDirectory") -> str:
    method = _method(call, directory)
    if method == "copy":
        return (
            f"{space([directory.path])} are copied, before that if it runs: this file system "
            "cannot share blocks"
        )
    return "its files share their blocks, so this takes seconds and hardly any space"


def _method(call: Call, directory: "InstanceDirectory") -> str:
    from rdd.vm.snapshots.machine import method_for

    root = snapshots.store_of(call).root_for(directory.path)
    existing: Path = root
    while not existing.exists():
        existing = existing.parent
    return method_for(directory, existing)
