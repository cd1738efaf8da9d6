# SPDX-License-Identifier: Apache-2.0
"""The flag `-o/--output` of commands that print text or JSON."""

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def is_json(call: Call) -> bool:
    """Return whether `-o json` is given. Raises CommandError for an unknown format."""
    form = call.flags.text("output")
    if form not in ("text", "json"):
        raise CommandError(f"unknown output format {quote(form)}; valid formats: text or json")
    return form == "json"
