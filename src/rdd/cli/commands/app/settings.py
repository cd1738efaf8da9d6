# SPDX-License-Identifier: Apache-2.0
"""Settings of the App as people read them: values in one line, origin, recorded changes."""

import json
from typing import TYPE_CHECKING, Any

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.framework.connection import get_or_none

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_HISTORY = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.HISTORY_CONFIG_MAP}"
_WIDTH = 60
DEFAULTED = {
    "virtualMachine.cpus": names.CPUS_DEFAULTED,
    "virtualMachine.memory": names.MEMORY_DEFAULTED,
}


def value_at(spec: Object | None, path: str) -> Any:
    """Return the value of a property; None if it is not set."""
    node: Any = spec
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def with_value(spec: Object, path: str, value: Any) -> None:
    """Set a property in a partial spec."""
    *parents, leaf = path.split(".")
    for parent in parents:
        spec = spec.setdefault(parent, {})
    spec[leaf] = value


def text_of(value: Any, *, is_complete: bool = False) -> str:
    """Return a value in one line; `-` for none. Long ones are cut unless `is_complete`."""
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ",".join(" ".join(item.split()) for item in value) or "-"
    else:
        text = json.dumps(value, ensure_ascii=False)
    text = text if is_complete else " ".join(text.split())
    return text if is_complete or len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def is_defaulted(app: Object, path: str) -> bool:
    """Return whether admission marked the value of a property as a default."""
    mark = DEFAULTED.get(path)
    annotations = app["metadata"].get("annotations") or {}
    return mark is not None and annotations.get(mark) == "true"


def recorded_changes(connection: "Connection") -> list[Object]:
    """Return the accepted changes of the App's spec, the oldest first."""
    from rdd.controllers.app.app.history import parse

    found = get_or_none(connection, _HISTORY) or {}
    return parse((found.get("data") or {}).get("changes", ""))


def changed_paths(old: Object, new: Object, prefix: str = "") -> list[str]:
    """Return the dotted paths of values that differ between two specs."""
    paths: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        path = f"{prefix}{name}"
        if isinstance(before, dict) or isinstance(after, dict):
            paths += changed_paths(before or {}, after or {}, f"{path}.")
        elif before != after:
            paths.append(path)
    return paths
