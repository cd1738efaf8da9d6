# SPDX-License-Identifier: Apache-2.0
"""Which of CPUs and memory were set explicitly, and which are defaults.

Admission writes the defaults into the spec, where they look like values of a user. The type
`host` enforces explicit values only, so admission also marks each value with an annotation:
`true` for a default, `false` for an explicit value. Ownership of fields cannot tell: a
mutating webhook's changes belong to the manager of the request, and a patch with the present
value owns nothing.

    unset or 0                   default
    created with a value         explicit, unless the object is marked as a default (a backup)
    changed value                explicit
    unchanged value              as marked in the new object, so a patch of the annotation decides;
                                 with a mark in the old object only, explicit (a file replaced it)
    no mark at all (older rdd)   a default if it has the default's value, otherwise explicit
"""

from collections.abc import Mapping
from typing import Final

from rdd.api import names
from rdd.kinds.app import App

MARKS: Final[Mapping[str, str]] = {
    "cpus": names.CPUS_DEFAULTED,
    "memory": names.MEMORY_DEFAULTED,
}
"""The annotation of each setting of spec.virtualMachine."""


def is_explicit(app: App, name: str) -> bool:
    """Return whether a setting was set explicitly; False for an App of an older rdd."""
    return app.metadata.annotations.get(MARKS[name]) == "false"


def marks(app: App, old: App | None, defaults: Mapping[str, object]) -> dict[str, str]:
    """Return the annotations of a new App with its values as they were requested."""
    return {
        mark: "true" if _is_default(app, old, name, defaults[name]) else "false"
        for name, mark in MARKS.items()
    }


def _is_default(app: App, old: App | None, name: str, default: object) -> bool:
    value = value_of(app, name)
    if not value:
        return True
    mark = app.metadata.annotations.get(MARKS[name])
    if old is None:
        return mark == "true"
    if value != value_of(old, name):
        return False
    if mark is None and MARKS[name] not in old.metadata.annotations:
        return value == default
    return mark == "true"


def value_of(app: App, name: str) -> object:
    """Return the value of a setting; empty or 0 without one."""
    machine = app.spec.virtual_machine
    return machine.cpus if name == "cpus" else machine.memory
