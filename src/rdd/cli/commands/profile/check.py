# SPDX-License-Identifier: Apache-2.0
"""`rdd profile check [FILE]`: all mistakes of a profile, with file and line."""

from pathlib import Path

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.profiles.current import CurrentProfile
    from rdd.profiles.parsing import parse
    from rdd.profiles.reading import Unreadable, read_any
    from rdd.profiles.rules import BrokenProfile

    if call.args:
        try:
            rules = parse(read_any(Path(call.args[0])))
        except Unreadable as error:
            raise CommandError(f"{error.path}: {error.reason}") from None
    else:
        found = CurrentProfile.of(call.instance).rules()
        if found is None:
            call.out.write("No deployment profile applies to this instance.\n")
            return 0
        rules = found
    if isinstance(rules, BrokenProfile):
        for problem in rules.problems:
            call.out.write(f"{problem}\n")
        count = len(rules.problems)
        raise CommandError(f"the profile has {count} mistake{'s' if count > 1 else ''}")
    call.out.write(f"{rules.path}: no mistakes\n")
    return 0
