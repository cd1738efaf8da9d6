# SPDX-License-Identifier: Apache-2.0
"""`rdd settings export` and `rdd settings import`: all settings as one YAML file.

The file is an App that `kubectl apply` accepts, too. Defaults that depend on the computer (CPUs and
memory) are not in it. An import makes the settings those of the file: what the file does not have
returns to its default, except whether the App runs. Nothing changes if the server refuses a part.
"""

import copy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.mergepatch import create_merge_patch
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.app.change_preview import show_changes
from rdd.cli.commands.app.machine import existing_app
from rdd.cli.commands.app.object import APP, APPS, app_schema, patch
from rdd.cli.commands.app.properties import with_required
from rdd.cli.commands.app.set import show
from rdd.cli.commands.app.settings import is_defaulted
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_API_VERSION = f"{names.APP_GROUP}/{names.VERSION}"
_MAX_DEPTH = 50
_STRICT = {"fieldValidation": "Strict"}


def run(call: Call) -> int:
    return _import(call) if call.path[-1] == "import" else _export(call)


def _export(call: Call) -> int:
    from rdd.api.yamlcodec import encode_yaml
    from rdd.host.errors import HostError
    from rdd.host.files import write_new

    with connected(call, creates=False) as connection:
        app = existing_app(connection)
    text = encode_yaml(
        {
            "apiVersion": _API_VERSION,
            "kind": "App",
            "metadata": {"name": names.APP_NAME},
            "spec": _without_defaults(app),
        }
    ).decode()
    if not call.args or call.args[0] == "-":
        call.out.write(text)
        return 0
    path = Path(call.args[0]).absolute()
    try:
        if not write_new(path, text):  # a proxy may contain a password: mode 0600
            raise CommandError(f"{quote(str(path))} exists; choose another name or remove it")
    except HostError as error:
        raise CommandError(str(error)) from error
    call.log.info(f"the settings have been exported to {quote(str(path))}")
    return 0


def _import(call: Call) -> int:
    wanted = _read(call.args[0])
    with shown(call) as progress, connected(call, progress=progress) as connection:
        app = get_or_none(connection, APP)
        if app is None:
            written = _create(connection, wanted)
        else:
            present = _without_defaults(app)
            wanted.setdefault("running", present.get("running", False))
            change = create_merge_patch(present, wanted)
            version = app["metadata"]["resourceVersion"]
            tried = patch(connection, change, {"dryRun": "All", **_STRICT}, version=version)
            if not is_json(call):
                with progress.aside():
                    show_changes(call, connection, app, tried)
            if call.flags.truth("dry-run"):
                show(call, tried)
                return 0
            written = patch(connection, change, _STRICT, version=version)
        from rdd.cli.commands.app.settling import wait_if_asked

        written = wait_if_asked(call, connection, written, progress)
    show(call, written)
    return 0


def _create(connection: "Connection", wanted: Object) -> Object:
    created: Object = connection.request(
        "POST",
        APPS,
        body={
            "apiVersion": _API_VERSION,
            "kind": "App",
            "metadata": {"name": names.APP_NAME},
            "spec": with_required(wanted, app_schema(connection)),
        },
        query={"fieldManager": "rdd", **_STRICT},
    )
    return created


def _read(name: str) -> Object:
    """Return the spec in a file, or of stdin for `-`. Raises CommandError."""
    from rdd.api.errors import ApiError
    from rdd.api.yamlcodec import read

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        found = read(data, max_depth=_MAX_DEPTH).value
    except OSError as error:
        raise CommandError(f"failed to read {quote(name)}: {error.strerror or error}") from error
    except ApiError as error:
        raise CommandError(f"{quote(name)}: {error.message}") from error
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (
        _API_VERSION,
        "App",
    ):
        raise CommandError(f"{quote(name)} has no settings: expected an App of {_API_VERSION}")
    spec = found.get("spec")
    if not isinstance(spec, dict):
        raise CommandError(f"{quote(name)} has no settings: spec is missing")
    return spec


def _without_defaults(app: Object) -> Object:
    """Return the settings without the defaults that depend on the computer."""
    spec: Object = copy.deepcopy(app["spec"])
    machine = spec.get("virtualMachine") or {}
    for name in ("cpus", "memory"):
        if is_defaulted(app, f"virtualMachine.{name}"):
            machine.pop(name, None)
    if not machine:
        spec.pop("virtualMachine", None)
    return spec
