# SPDX-License-Identifier: Apache-2.0
"""Flags that mean the same in many commands, so that they are called and explained the same."""

from rdd.cli.framework.types import Flag

WAIT = Flag("wait", "wait until it is done", kind="bool", default="true")
TIMEOUT = Flag("timeout", "give up waiting after this time (0: never)", "duration", "5m")
FOLLOW = Flag("follow", "go on until interrupted", kind="bool", short="f")
SHELL_FLAGS = (
    Flag("shell", "the shell to use (default: that of the user there)"),
    Flag("workdir", "the directory to begin in"),
)


def output(usage: str = "text, or json: print the result on stdout as JSON") -> Flag:
    """`-o text` or `-o json`."""
    return Flag("output", usage, default="text", short="o", values=("text", "json"))
