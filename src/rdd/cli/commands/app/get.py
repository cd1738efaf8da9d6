# SPDX-License-Identifier: Apache-2.0
"""`rdd get [PROPERTY]`: values of settings, their defaults, and where the values come from.

The source of a value is the recorded change that set it, else the field manager that
owns it, else `default`. CPUs and memory are written into the spec by admission and
marked as defaults there; the type `host` does not enforce those.
"""

import json
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.app.object import APP, app_schema
from rdd.cli.commands.app.properties import Schema, leaves
from rdd.cli.commands.app.settings import is_defaulted, recorded_changes, text_of, value_at
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

_HEADERS = ("PROPERTY", "VALUE", "DEFAULT", "SOURCE", "LOCK")


def run(call: Call) -> int:
    as_json = is_json(call)
    with connected(call, creates=False) as connection:
        schema = app_schema(connection)
        wanted = _selected(call.args[0] if call.args else "", schema)
        app = get_or_none(connection, APP)
        changes = recorded_changes(connection)
    found = [_describe(path, inner, app, changes) for path, inner in wanted]
    _add_profile(call, found, app, changes)
    if as_json:
        is_one = bool(call.args) and [path for path, _ in wanted] == [call.args[0]]
        call.out.write(json.dumps(found[0] if is_one else found) + "\n")
    else:
        write_table(call, [_HEADERS, *map(_row, found)])
    return 0


def _selected(given: str, schema: Schema) -> list[tuple[str, Schema]]:
    """Return a property, or all below an object. Raises CommandError."""
    known = sorted(leaves(schema))
    found = [(p, s) for p, s in known if not given or p == given or p.startswith(f"{given}.")]
    if not found:
        names = [path for path, _ in known]
        hint = did_you_mean(given, names) or f"valid properties: {', '.join(names)}"
        raise CommandError(f"unknown property {quote(given)}; {hint}")
    return found


def _describe(path: str, schema: Schema, app: Object | None, changes: list[Object]) -> Object:
    value = value_at((app or {}).get("spec"), path)
    # Commands write the zero value of a required boolean that the user did not set.
    default = schema.get("default", False if schema.get("type") == "boolean" else None)
    is_default = value is None or (app is not None and is_defaulted(app, path))
    described: Object = {"property": path, "value": value, "default": default, "lock": None}
    if is_default and value is not None:
        described["default"] = value  # computed for this host
    described["source"] = _source(path, value, is_default or value == default, app, changes)
    return described


def _source(
    path: str, value: Any, is_default: bool, app: Object | None, changes: list[Object]
) -> str:
    if value is None:
        return "default"
    marked = app is not None and is_defaulted(app, path)
    for change in reversed(changes):
        for field in change["fields"]:
            if field.get("field") == path and not marked:
                by = f"{change['user']} with {change['manager'] or 'an unnamed client'}"
                return f"set by {by}, {change['time']}"
        if change["operation"] == "create":
            break  # earlier ones are those of a deleted App
    if marked and app is not None and (app.get("status") or {}).get("virtualMachineType") == "host":
        return "default, not enforced by the type host"
    return "default" if is_default else "set"


def _add_profile(
    call: Call, found: list[Object], app: Object | None, changes: list[Object]
) -> None:
    """Add the locks of the deployment profile, and the defaults that come from it."""
    from rdd.profiles.current import CurrentProfile

    rules = CurrentProfile.of(call.instance).rules()
    if rules is None:
        return
    from rdd.profiles import settings
    from rdd.profiles.rules import Profile

    locks = {lock.name: lock for lock in rules.locks}
    defaults = rules.defaults if isinstance(rules, Profile) else {}
    untouched = _filled_by_profile(app, changes)
    for entry in found:
        is_chosen = "set by" in entry["source"] and entry["property"] not in untouched
        path = tuple(entry["property"].split("."))
        given = settings.value_at(defaults, path)
        if given is not None:
            entry["default"] = given
            if settings.same(path, given, entry["value"]) and not is_chosen:
                entry["source"] = f"default of {rules.path}"
        if lock := locks.get(entry["property"]):
            entry["lock"] = {"value": lock.value, "file": str(rules.path), "line": lock.line}
            is_met = settings.same(path, lock.value, entry["value"])
            if is_met and not is_chosen:
                entry["source"] = f"locked by {rules.path}"


def _filled_by_profile(app: Object | None, changes: list[Object]) -> set[str]:
    """Return the properties that the profile filled in, and that are unchanged since."""
    annotations = (app or {}).get("metadata", {}).get("annotations") or {}
    filled = set(annotations.get(names.FROM_PROFILE, "").split(","))
    recorded = [field.get("field") for change in changes for field in change["fields"]]
    return {name for name in filled if recorded.count(name) <= 1}


def _lock_text(lock: Object | None) -> str:
    return "-" if lock is None else f"{text_of(lock['value'])} ({lock['file']}:{lock['line']})"


def _row(found: Object) -> tuple[str, ...]:
    return (
        found["property"],
        text_of(found["value"]),
        text_of(found["default"]),
        found["source"],
        _lock_text(found["lock"]),
    )
