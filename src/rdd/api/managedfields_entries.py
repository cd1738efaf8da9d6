# SPDX-License-Identifier: Apache-2.0
"""Entries of metadata.managedFields.

An entry lists the fields that a manager owns. It is identified by manager,
operation, subresource and, for updates, API version: an applier stays the
same when it moves to another version, an updater does not. Entries are plain
dicts in the form and order of the API and MUST NOT be modified, because lists
of them are shared between an object and its successor.
"""

from datetime import UTC, datetime
from typing import Any

from rdd.api import fieldset
from rdd.api.types import Object

MAX_UPDATERS = 10
"""More updaters than this are merged, so that managedFields stay bounded."""
ANCIENT_CHANGES = "ancient-changes"
"""The manager the oldest updaters are merged into."""

Entry = dict[str, Any]


def entries_of(obj: Object) -> list[Entry]:
    """Return the managedFields of an object."""
    return (obj.get("metadata") or {}).get("managedFields") or []


def new_entry(
    manager: str, operation: str, api_version: str, time: str | None, subresource: str
) -> Entry:
    """Return an entry without fields yet, its members in the order of the API."""
    entry: Entry = {
        "manager": manager or "unknown",
        "operation": operation,
        "apiVersion": api_version,
    }
    if time is not None:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = {}
    if subresource:
        entry["subresource"] = subresource
    return entry


def identity(entry: Entry) -> tuple[str, str, str, str]:
    """Return what makes two entries the same manager; of appliers the version does not count."""
    operation = entry["operation"]
    version = "" if operation == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def sort(entries: list[Entry], *, by_operation: bool = True) -> list[Entry]:
    """Return entries in the order of the API: appliers first, then by time and name."""
    if len(entries) > 1:
        entries.sort(
            key=lambda e: (
                e["operation"] if by_operation else "",
                e.get("time") or "",
                e.get("manager", ""),
                e["apiVersion"],
                e.get("subresource", ""),
            )
        )
    return entries


def decode(sent: Any) -> list[Entry] | None:
    """Return entries from a client in canonical form and order.

    None if one of them is malformed.
    """
    if not isinstance(sent, list):
        return None
    out: dict[tuple[str, str, str, str], Entry] = {}
    for raw in sent:
        if problem(raw) is not None:
            return None
        time = raw.get("time")
        entry = new_entry(
            raw.get("manager") or "", raw["operation"], raw["apiVersion"],
            None if time is None else _time(time), raw.get("subresource") or "",
        )  # fmt: skip
        entry["manager"] = raw.get("manager") or ""
        entry["fieldsV1"] = fieldset.decode(raw.get("fieldsV1"))
        out[identity(entry)] = entry
    return sort([e for e in out.values() if e["fieldsV1"]])


def problem(entry: Any, position: int = 0) -> str | None:
    """Return why an entry is malformed, as Kubernetes words it; None if it is valid."""
    if not isinstance(entry, dict):
        return "entry must be an object"
    if entry.get("operation") not in ("Apply", "Update"):
        return "operation must be `Apply` or `Update`"
    if not isinstance(entry.get("apiVersion"), str) or not entry["apiVersion"]:
        return "apiVersion must not be empty"
    fields_type = entry.get("fieldsType") or ""
    if fields_type != "FieldsV1":
        where = f"in managed fields entry {position}"
        return (
            f'invalid fieldsType "{fields_type}" {where}'
            if fields_type
            else f"missing fieldsType {where}"
        )
    for name in ("manager", "subresource"):
        if not isinstance(entry.get(name) or "", str):
            return f"{name} must be a string"
    try:
        if entry.get("time") is not None:
            _time(entry["time"])
        fieldset.decode(entry.get("fieldsV1"))
    except (fieldset.BadFields, ValueError, TypeError) as e:
        return f"error decoding set: {e}"
    return None


def _time(text: str) -> str:
    """Return a time as metav1.Time prints it: in UTC, whole seconds."""
    if len(text) == 20 and text.endswith("Z"):
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        return text
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time without zone: {text}")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def capped(entries: list[Entry]) -> list[Entry]:
    """Return the entries, with the oldest updaters of each version merged down to the limit."""
    updaters = sort([e for e in entries if e["operation"] == "Update"], by_operation=False)
    excess = len(updaters) - MAX_UPDATERS
    kept = {identity(e): e for e in entries}
    first: dict[str, Entry] = {}
    for entry in updaters:
        if excess <= 0:
            break
        version = entry["apiVersion"]
        if version not in first:
            first[version] = entry
            continue
        bucket = new_entry(ANCIENT_CHANGES, "Update", version, entry.get("time"), "")
        key = identity(bucket)
        oldest = kept.get(key) or kept.pop(identity(first[version]))
        bucket["fieldsV1"] = fieldset.union(entry["fieldsV1"], oldest["fieldsV1"])
        kept.pop(identity(entry), None)
        kept[key] = bucket
        excess -= 1
    return list(kept.values())
