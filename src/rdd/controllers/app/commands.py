# SPDX-License-Identifier: Apache-2.0
"""Commands that messages suggest: they can be pasted into a shell."""

import shlex
from pathlib import Path

from rdd.instance import DEFAULT_SUFFIX, Instance


def rdd_command(instance: Instance, words: str) -> str:
    """Return a command of rdd for a shell; it names an instance that is not the default."""
    option = "" if instance.suffix == DEFAULT_SUFFIX else f"--instance {instance.suffix} "
    return f"rdd {option}{words}"


def move_away(path: Path) -> str:
    """Return a command that renames a file."""
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}"


def largest_directories(path: Path) -> str:
    """Return a command that lists the largest directories."""
    return f"du -xhd 2 {shlex.quote(str(path))} | sort -h | tail"
