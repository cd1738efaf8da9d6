# SPDX-License-Identifier: Apache-2.0
"""Keeps the settings of a deleted App in the trash, with its machine if that is there.

The LimaVM controller moves the machine and notes the uid of its owner, so that the App, which
outlives its LimaVM, finds the entry and adds its settings. Without one (there was no machine, or
it is on another file system) the settings get an entry of their own. Both are found by the uid,
so a deletion that is repeated after a crash changes nothing.

Only what was set is kept: defaults, also those that admission wrote into the spec, are those of
the rdd that restores them. Values with credentials are left out and listed.
"""

import json
import logging
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.app.app import explicit, history
from rdd.host.errors import HostError
from rdd.host.trash import Trash
from rdd.kinds.app import App
from rdd.vm.machine_trash import OMITTED, OWNER, SETTINGS

log = logging.getLogger("rdd.app")


def keep(trash: Trash, suffix: str, app: App) -> None:
    """Add the settings of a deleted App to the trash of an instance; log what fails."""
    if names.SKIP_TRASH in app.metadata.annotations:
        return
    uid = app.raw["metadata"]["uid"]
    settings, omitted = settings_of(app)
    details = {OWNER: uid, SETTINGS: json.dumps(settings), OMITTED: json.dumps(omitted)}
    try:
        found = next((one for one in trash.entries() if one.details.get(OWNER) == uid), None)
        if found is not None:
            trash.describe(found, details)
        elif settings or omitted:
            name = names.APP_NAME
            trash.add({}, instance=suffix, kind=SETTINGS, name=name, details=details)
    except HostError as error:
        log.warning("the settings of the App are not kept in the trash: %s", error)


def settings_of(app: App) -> tuple[Object, list[str]]:
    """Return the spec without defaults, and the fields left out because of credentials."""
    omitted: list[str] = []
    found = _set(app.raw.get("spec") or {}, "", app, omitted)
    return found or {}, omitted


def _set(value: Any, path: str, app: App, omitted: list[str]) -> Any:
    """Return the part of a value that was set; None if nothing was."""
    if isinstance(value, dict):
        parts = {
            name: _set(part, f"{path}.{name}" if path else name, app, omitted)
            for name, part in value.items()
        }
        return {name: part for name, part in parts.items() if part is not None} or None
    if path == "running" or value in (history.default_of(path), "", None, []):
        return None
    name = path.removeprefix("virtualMachine.")
    if name in explicit.MARKS and not explicit.is_explicit(app, name):
        return None
    if history.has_credentials(value):
        omitted.append(path)
        return None
    return value
