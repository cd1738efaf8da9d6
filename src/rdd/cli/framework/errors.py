# SPDX-License-Identifier: Apache-2.0
"""Errors and exit codes of commands."""

FAILED = 1  # any error without a code of its own, usage errors included
REJECTED = 3  # the API server refused a write: 400, 403 or 422
TIMED_OUT = 4  # a wait ended at its deadline
VERSION_MISMATCH = 5  # the running daemon is of another version
BROKEN_PIPE = 141  # the reader of stdout went away: 128 + SIGPIPE, as the shell reports it
# 130 after Ctrl-C: rdd.host.interrupts


class CommandError(Exception):
    """Ends the command with one line: what, where, and what is allowed."""

    def __init__(self, message: str, *, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
