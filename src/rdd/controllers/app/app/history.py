# SPDX-License-Identifier: Apache-2.0
"""The history of accepted changes of the App's spec.

Admission has the user and the field manager of a write, but not whether it is stored; the
reconciler has what was stored, but not by whom, and may see several writes at once.
So the defaulter describes each change in an annotation of the App, which is stored with
the change or not at all. The annotation keeps the last changes and starts from the
stored object, so that a client can neither drop nor forge them. The reconciler copies
new ones to a ConfigMap, which outlives the App and does not depend on the revisions that
the store keeps.

Credentials in URLs are masked before anything is written, and long values replaced by
their size. Such a value cannot be restored, and is marked so.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.app.app import explicit
from rdd.kinds.app import App
from rdd.kinds.crd import schema_of
from rdd.runtime import AdmissionRequest, Context

log = logging.getLogger("rdd.app")

KEY: Final = "changes"
MAX_CHANGES: Final = 500
MAX_AGE: Final = timedelta(days=90)
_MAX_BYTES = 512 * 1024  # of the ConfigMap, whose limit is 1 MiB
_PENDING = 20  # changes in the annotation; the reconciler copies each within milliseconds
_PENDING_BYTES = 32 * 1024  # all annotations together may have 256 KiB
_MAX_VALUE = 4096  # characters of one value

_credentials = re.compile(r"(\w://)[^\s/@\"]+@")
MASK: Final = "***"


def annotated(app: App, request: AdmissionRequest[App], *, clock: float | None = None) -> App:
    """Return the completed App of a request with the annotation that describes its change."""
    old = request.old
    kept = [] if old is None else parse(old.metadata.annotations.get(names.CHANGES, ""))
    fields = list(_differences(_spec(old), _spec(app)))
    if old is None:
        fields = [field for field in fields if not _is_default(field, app)]
    if fields:
        now = time.time() if clock is None else clock
        kept.append(
            {
                "id": secrets.token_hex(6),
                "time": timestamps.text(int(now)),
                "user": request.user,
                "manager": str(request.options.get("fieldManager") or ""),
                "operation": "create" if old is None else "update",
                "fields": [_recorded(field, old) for field in fields],
            }
        )
    kept = kept[-_PENDING:]
    while kept and len(text := _text(kept)) > _PENDING_BYTES:
        del kept[0]
    annotations = dict(app.metadata.annotations)
    annotations.pop(names.CHANGES, None)
    if kept:
        annotations[names.CHANGES] = text
    if annotations == app.metadata.annotations:
        return app
    return app.replace(metadata=app.metadata.replace(annotations=annotations))


async def record(context: Context, app: App) -> None:
    """Copy the changes of the annotation that are new to the ConfigMap. Never raises ApiError."""
    pending = parse(app.metadata.annotations.get(names.CHANGES, ""))
    if not pending:
        return
    try:
        await _record(context, app, pending)
    except errors.ApiError as error:  # the next reconcile tries again
        log.warning("cannot record a change of the App: %s", error)


async def _record(context: Context, app: App, pending: list[Object]) -> None:
    client, name = context.client, names.HISTORY_CONFIG_MAP
    try:
        found = await client.get(CONFIG_MAPS, name, namespace=names.SYSTEM_NAMESPACE)
    except errors.NotFound:
        found = None
    present = parse(((found or {}).get("data") or {}).get(KEY, ""))
    oldest = timestamps.text(
        int((datetime.fromtimestamp(context.clock(), UTC) - MAX_AGE).timestamp())
    )
    known = {change["id"] for change in present}
    new = [c for c in pending if c["id"] not in known and c["time"] >= oldest]
    for change in new:
        change["manager"] = change["manager"] or _manager_at(app, change["time"])
    if not new:
        return
    text = _text(bounded([*present, *new], oldest))
    if found is None:
        body = {
            "metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE},
            "data": {KEY: text},
        }
        await client.create(CONFIG_MAPS, body)
        return
    patch = {
        "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
        "data": {KEY: text},
    }
    await client.patch(CONFIG_MAPS, name, patch, namespace=names.SYSTEM_NAMESPACE)


def _manager_at(app: App, second: str) -> str:
    """Return the manager of a write whose request named none, by the time of its entry."""
    entries = app.raw["metadata"].get("managedFields") or ()
    own = [e for e in entries if e.get("time") == second and not e.get("subresource")]
    return str(own[-1].get("manager", "")) if own else ""


def bounded(changes: list[Object], oldest: str) -> list[Object]:
    """Return the last changes that are recent and fit in the ConfigMap."""
    kept = [change for change in changes if change["time"] >= oldest][-MAX_CHANGES:]
    size = 0
    for at in range(len(kept) - 1, -1, -1):
        size += len(_text([kept[at]]))
        if size > _MAX_BYTES:
            return kept[at + 1 :]
    return kept


def _text(changes: list[Object]) -> str:
    return json.dumps(changes, ensure_ascii=True, separators=(",", ":"))


def parse(text: str) -> list[Object]:
    """Return changes from JSON, the oldest first; damaged ones are left out."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    given = found if isinstance(found, list) else []
    return [change for change in given if _is_change(change)]


def _is_change(change: Any) -> bool:
    return (
        isinstance(change, dict)
        and all(isinstance(change.get(key), str) for key in ("id", "time", "user", "manager"))
        and isinstance(change.get("fields"), list)
    )


def _spec(app: App | None) -> Mapping[str, Any]:
    found = app.raw.get("spec") if app is not None else None
    return found if isinstance(found, dict) else {}


def _differences(old: Any, new: Any, path: str = "") -> Iterator[Object]:
    """Yield each leaf field whose value differs; None stands for an absent value."""
    if isinstance(old, dict | None) and isinstance(new, dict | None):
        before, after = old or {}, new or {}
        for name in sorted(before.keys() | after.keys()):
            below = f"{path}.{name}" if path else name
            yield from _differences(before.get(name), after.get(name), below)
    elif old != new:
        yield {"field": path, "old": old, "new": new}


def _is_default(field: Object, app: App) -> bool:
    """Return whether a field of a new App has its default, also one of this host."""
    name = field["field"].removeprefix("virtualMachine.")
    mark = explicit.MARKS.get(name, "")
    return app.metadata.annotations.get(mark) == "true" or bool(
        field["new"] == default_of(field["field"])
    )


def default_of(path: str) -> Any:
    """Return the default of a field in the schema of the App."""
    node: Any = schema_of(App)["properties"]["spec"]
    for part in path.split("."):
        node = (node.get("properties") or {}).get(part) or {}
    return node.get("default", False if node.get("type") == "boolean" else None)


def _recorded(field: Object, old: App | None) -> Object:
    """Return a field as it is recorded.

    `masked` lists values that cannot be restored, `wasDefault` marks an old value that was
    not set: to restore it means to remove the value.
    """
    masked = []
    shown: Object = {"field": field["field"]}
    name = field["field"].removeprefix("virtualMachine.")
    if old is not None and name in explicit.MARKS and not explicit.is_explicit(old, name):
        shown["wasDefault"] = True
    for side in ("old", "new"):
        shown[side], is_masked = _masked(field[side])
        if is_masked:
            masked.append(side)
    return {**shown, "masked": masked} if masked else shown


def has_credentials(value: Any) -> bool:
    """Return whether a URL in a value has a user or a password."""
    return _credentials.search(json.dumps(value)) is not None


def _masked(value: Any) -> tuple[Any, bool]:
    text = json.dumps(value)
    if len(text) > _MAX_VALUE:
        return f"({len(text)} characters)", True
    hidden = _credentials.sub(rf"\g<1>{MASK}@", text)
    return (json.loads(hidden), True) if hidden != text else (value, False)
