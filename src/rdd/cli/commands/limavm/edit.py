# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm edit`: edit the template of a virtual machine."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_EDITORS = ("KUBE_EDITOR", "EDITOR", "VISUAL")


def run(call: Call) -> int:
    """Edit a template; offer another edit if the server rejects the result."""
    from rdd.api.errors import ApiError

    (name,) = call.args
    with limavm.connection_for(call) as connection:
        vm = limavm.find(connection, name)
        copy = (vm.get("status") or {}).get("templateConfigMap")
        if not copy:
            raise CommandError(
                f"LimaVM {quote(name)} has no template yet; `rdd limavm list` shows its state"
            )
        path = f"/api/v1/namespaces/{vm['metadata']['namespace']}/configmaps/{copy}"
        config_map: Object = connection.get(path)
        before = text = (config_map.get("data") or {}).get("template", "").strip()
        while True:
            text = _edited(call, text)
            if text == before:
                call.log.info("No changes made to template, skipping update")
                return 0
            if not text:
                raise CommandError("template data was cleared, aborting edit")
            try:
                _save(connection, path, config_map, text)
            except ApiError as error:
                sys.stderr.write(f"{error.message}\n")
                if not _is_retried():
                    raise CommandError("aborted") from error
                if error.code == 409:
                    config_map = connection.get(path)
                continue
            call.log.info(f"Template ConfigMap {quote(copy)} updated successfully")
            return 0


def _save(connection: "Connection", path: str, config_map: Object, text: str) -> None:
    """Write the template with optimistic concurrency."""
    from rdd.api.mediatypes import MERGE_PATCH

    body = {
        "metadata": {"resourceVersion": config_map["metadata"]["resourceVersion"]},
        "data": {"template": text + "\n"},
    }
    connection.request("PATCH", path, body=body, content_type=MERGE_PATCH)


def _edited(call: Call, text: str) -> str:
    import shlex
    import tempfile

    from rdd.host.spawn import run_foreground

    variables = call.environment.variables
    editor = next((variables[name] for name in _EDITORS if variables.get(name)), "vi")
    descriptor, name = tempfile.mkstemp(prefix="rdd-template-", suffix=".yaml")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
        try:
            status = run_foreground([*shlex.split(editor), name])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandError(f"cannot run the editor {quote(editor)}: {reason}") from error
        if status:
            raise CommandError(f"the editor {quote(editor)} failed, exit code {status}")
        return Path(name).read_text().strip()
    finally:
        Path(name).unlink(missing_ok=True)


def _is_retried() -> bool:
    sys.stderr.write("Retry editing with your previous changes? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
