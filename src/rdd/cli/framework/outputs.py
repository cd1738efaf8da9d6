# SPDX-License-Identifier: Apache-2.0
"""The flag `-o/--output` of commands that print text or JSON."""

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call, Command, Group

_FORMATS = ("text", "json")


def check_format(call: Call, command: Command | Group) -> None:
    """Raise CommandError for an unknown format, before the command does its work."""
    if any(flag.name == "output" and flag.values == _FORMATS for flag in command.flags):
        is_json(call)


def is_json(call: Call) -> bool:
    """Return whether `-o json` is given. Raises CommandError for an unknown format."""
    form = call.flags.text("output")
    if form not in _FORMATS:
        raise CommandError(f"unknown output format {quote(form)}; valid formats: text or json")
    return form == "json"
