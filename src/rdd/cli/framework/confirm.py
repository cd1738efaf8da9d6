# SPDX-License-Identifier: Apache-2.0
"""Confirmation before something is destroyed.

On a terminal what goes is always shown. The question is asked only if a person can
answer it: stdin and stderr are terminals and `--yes` is not given. Any answer but yes,
and the end of the input, changes nothing.
"""

import sys
from collections.abc import Sequence

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.logline import Level
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import addressed

_AGREED = ("y", "yes")


def confirm(call: Call, lines: Sequence[str]) -> None:
    """Show what goes and ask for consent. Raises CommandError without it."""
    if not is_interactive():
        # Scripts that predate the question compare the messages of level info.
        level: Level = "info" if call.flags.truth("yes") else "debug"
        for line in lines:
            call.log.write(level, line)
        return
    suffix = call.environment.suffix()
    sys.stderr.write("".join(f"{addressed(line, suffix)}\n" for line in lines))
    if call.flags.truth("yes"):
        return
    sys.stderr.write("Continue? [y/N] ")
    sys.stderr.flush()
    if not agreed():
        raise CommandError("not confirmed; nothing was changed")


def agreed() -> bool:
    """Read the answer to a question and return whether it is yes."""
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")  # the end of the input leaves the cursor behind the question
    return answer.strip().lower() in _AGREED


def is_interactive() -> bool:
    """Return whether a person can see a question and answer it."""
    return bool(
        sys.stdin is not None
        and not sys.stdin.closed
        and sys.stdin.isatty()
        and sys.stderr is not None
        and sys.stderr.isatty()
    )
