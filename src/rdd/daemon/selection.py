# SPDX-License-Identifier: Apache-2.0
"""Which of the project's own controllers run: the grammar of `--controllers`.

Items separated by commas: `*`, the name of a group or of a controller; a `-` in
front leaves it out again, wherever it stands. A list that only leaves out selects
nothing, and so does an empty one. A name nobody has is an error that lists all.
"""

from collections.abc import Mapping

from rdd.daemon.errors import ServiceError

AVAILABLE: Mapping[str, str] = {}
"""Controllers this build contains, each with its group."""


def select_controllers(selection: str, available: Mapping[str, str] = AVAILABLE) -> set[str]:
    """The names a selection stands for. Raises ServiceError."""
    items = {item.strip() for item in selection.split(",")} - {""}
    excluded = {item[1:].strip() for item in items if item.startswith("-")}
    included = {item for item in items if not item.startswith("-")}
    valid = {"*", *available, *available.values()} - {""}
    unknown = sorted((included | excluded) - valid)
    if unknown:
        raise ServiceError(
            f"unknown controllers: {', '.join(unknown)}; valid are {', '.join(sorted(valid))}"
        )

    def matches(name: str, group: str, chosen: set[str]) -> bool:
        return bool({"*", name, group} & chosen)

    return {
        name
        for name, group in available.items()
        if matches(name, group, included) and not matches(name, group, excluded)
    }
