# SPDX-License-Identifier: Apache-2.0
"""Replace this process by another program found on PATH.

rdd publishes links to itself under the names of such programs (`kubectl`), so a search
on PATH can find rdd again, and running that would recurse forever. Any file that is
rdd, through a link, a copy or another installation, is skipped.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.host import signals

_ENTRY_POINT = b"rdd.__main__"
_SCRIPT_LIMIT_BYTES = 64 * 1024  # a console script has a few hundred bytes


def find(name: str, search_path: Sequence[str]) -> Path | None:
    """Return the first executable called `name` on the path that is not rdd itself."""
    for directory in search_path:
        path = Path(directory, name)
        if path.is_file() and os.access(path, os.X_OK) and not is_rdd(path):
            return path
    return None


def is_rdd(path: Path) -> bool:
    """Return whether a file is rdd, by the target of its links or the script's entry point."""
    target = path.resolve()
    if target.name.split(".", 1)[0] == "rdd":
        return True
    if target.stat().st_size > _SCRIPT_LIMIT_BYTES or not os.access(target, os.R_OK):
        return False
    text = target.read_bytes()
    return text.startswith(b"#!") and _ENTRY_POINT in text


def replace_process(call: Call, name: str, *, advice: str) -> NoReturn:
    """Replace this process by the program `name` with the call's arguments. Raises CommandError."""
    path = find(name, call.environment.search_path)
    if path is None:
        raise CommandError(f"no {name} found on PATH (links to rdd do not count); {advice}")
    become(call, path, name, call.environment.variables)


def become(call: Call, path: Path, name: str, variables: Mapping[str, str]) -> NoReturn:
    """Replace this process by the program at `path`. Raises CommandError."""
    call.out.flush()
    try:
        signals.replace_process(path, [name, *call.args], variables)
    except OSError as error:
        raise CommandError(f"failed to run {quote(str(path))}: {error.strerror}") from error
