# SPDX-License-Identifier: Apache-2.0
"""Selection of the project's own controllers: the grammar of `--controllers`.

Items separated by commas: `*`, the name of a group or of a controller; a leading `-` excludes
it, in any position. A list of exclusions only selects nothing, and so does an empty one. An
unknown name is an error that lists the valid ones.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rdd.controllers import catalog
from rdd.daemon.service.errors import ServiceError

if TYPE_CHECKING:
    from rdd.daemon.options import ServeOptions

log = logging.getLogger("rdd.daemon")


def select_controllers(
    selection: str, available: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the selected names in start order. Raises ServiceError.

    `available` maps controllers to their groups; those of the daemon by default.
    """
    if available is None:
        available = catalog.groups(catalog.EMBEDDED)
    items = {item.strip() for item in selection.split(",")} - {""}
    excluded = {item[1:].strip() for item in items if item.startswith("-")}
    included = {item for item in items if not item.startswith("-")}
    valid = {"*", *available, *available.values()}
    unknown = sorted((included | excluded) - valid)
    if unknown:
        raise ServiceError(
            f"unknown controllers: {', '.join(unknown)}; valid are {', '.join(sorted(valid))}"
        )

    def matches(name: str, group: str, chosen: set[str]) -> bool:
        return bool({"*", name, group} & chosen)

    return tuple(
        name
        for name, group in available.items()
        if matches(name, group, included) and not matches(name, group, excluded)
    )


def select_all(options: "ServeOptions") -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of built-in and own controllers to run. Raises ServiceError."""
    from rdd.controllers.builtin.manager import UnknownControllers, select

    embedded = {entry.name: entry.group for entry in options.entries if entry.group != catalog.MOCK}
    names = select_controllers(options.controllers, embedded)
    for line in catalog.unmet_needs(names, options.entries):
        log.warning("%s", line)
    try:
        return select(options.builtin_controllers), names
    except UnknownControllers as error:
        raise ServiceError(str(error)) from error
