# SPDX-License-Identifier: Apache-2.0
"""Damaged objects of the database, seen from commands: list, restore, remove.

Listing reads the database beside a running daemon. A repair needs it alone: the daemon is stopped
for a moment and started again if it was running. An object is restored from its newest undamaged
value: an earlier change that the database still has, otherwise the newest backup that has one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rdd.daemon.service import backups, crash
from rdd.daemon.service.errors import ServiceError
from rdd.instance import Instance

if TYPE_CHECKING:
    from rdd.daemon.service.lifecycle import Service

_PREFIX = "/registry/"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A damaged object."""

    name: str
    """Its key without the common prefix: `configmaps/default/settings`."""
    revision: int
    source: str
    """Where an undamaged value is: "history", the name of a backup, or empty."""


def list_all(instance: Instance) -> list[Quarantined]:
    """Return the damaged objects. Raises ServiceError."""
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import repair

    if not instance.database.exists():
        return []
    try:
        found = repair.find_damaged(instance.database)
    except StoreError as error:
        raise ServiceError(f"{error}{backups.advice(instance)}") from error
    return [
        Quarantined(d.key.removeprefix(_PREFIX), d.revision, _source(instance, d.key)[0])
        for d in sorted(found, key=lambda d: d.key)
    ]


def restore(service: "Service", names: tuple[str, ...]) -> None:
    """Restore damaged objects from their newest undamaged values."""
    from rdd.store.sqlite import repair

    instance = service.instance
    values: dict[str, bytes] = {}
    for name in _selected(instance, names):
        source, value = _source(instance, _PREFIX + name)
        if value is None:
            raise ServiceError(
                f"there is no undamaged value of {name}, neither in the history nor in a backup; "
                f"remove it with `rdd service quarantine rm {name}` and create it again"
            )
        values[name] = value
        service.caller.report(f"restoring {name} from {source}")
    _repair(
        service,
        [partial(repair.replace, instance.database, _PREFIX + n, v) for n, v in values.items()],
    )


def remove(service: "Service", names: tuple[str, ...]) -> None:
    """Remove damaged objects."""
    from rdd.store.sqlite import repair

    instance = service.instance
    chosen = _selected(instance, names)
    _repair(service, [partial(repair.remove, instance.database, _PREFIX + n) for n in chosen])
    for name in chosen:
        service.caller.report(f"removed {name}")


def _selected(instance: Instance, names: tuple[str, ...]) -> list[str]:
    found = {q.name for q in list_all(instance)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ServiceError(
            f"{', '.join(unknown)} is not in quarantine; `rdd service quarantine ls` lists what is"
        )
    return list(dict.fromkeys(names))


def _source(instance: Instance, key: str) -> tuple[str, bytes | None]:
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import repair

    for path in (instance.database, *backups.existing(instance)):
        try:
            found = repair.find_value(path, key)
        except StoreError:
            continue  # an unreadable copy
        if found is not None:
            return ("history" if path == instance.database else path.name), found.value
    return "", None


def _repair(service: "Service", steps: Sequence[Callable[[], None]]) -> None:
    from rdd.daemon.service.lifecycle import STOP_TIMEOUT_S
    from rdd.store.contract import StoreError

    was_running = service.running() is not None
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        crash.clear(service.instance)
        try:
            for step in steps:
                step()
        except StoreError as error:
            raise ServiceError(str(error)) from error
    if was_running:
        service.start()
