# SPDX-License-Identifier: Apache-2.0
"""Flags shared by many commands, declared once so that names and help texts agree."""

from rdd.cli.framework.types import Flag

WAIT = Flag("wait", "wait for completion", kind="bool", default="true")
TIMEOUT = Flag("timeout", "maximum time to wait; 0 means no limit", "duration", "5m")
FOLLOW = Flag("follow", "stream output until interrupted", kind="bool", short="f")
YES = Flag("yes", "do not ask for confirmation", kind="bool", short="y")
NO_TRASH = Flag("no-trash", "free the space at once; it cannot be restored", kind="bool")
SHELL_FLAGS = (
    Flag("shell", "shell to run (default: the login shell of the user)"),
    Flag("workdir", "working directory"),
)


def output(usage: str = "output format: text, or json to print the result as JSON") -> Flag:
    """Return the flag `-o text|json`."""
    return Flag("output", usage, default="text", short="o", values=("text", "json"))
