# SPDX-License-Identifier: Apache-2.0
"""`rdd service paths [KEY]`: print the files and directories of an instance.

The output is an interface: scripts use `rdd service paths KEY` in command
substitution and `eval "$(rdd service paths -o shell)"`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.instance import PATH_KEYS

_FORMATS = ("table", "json", "shell")


def run(call: Call) -> int:
    form = call.flags.text("output")
    if form not in _FORMATS:
        raise CommandError(
            f"unknown output format {quote(form)}; valid formats: table, json, or shell"
        )
    paths = call.instance.paths()
    if call.args:
        (key,) = call.args
        if key not in paths:
            raise CommandError(f"unknown key {quote(key)}; valid keys: {', '.join(paths)}")
        paths = {key: paths[key]}
    call.out.write(_render(paths, form, bare=bool(call.args)) + "\n")
    return 0


def complete() -> Iterable[str]:
    return PATH_KEYS


def _render(paths: Mapping[str, Path], form: str, *, bare: bool) -> str:
    if form == "json":
        import json

        texts = {key: str(path) for key, path in paths.items()}
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    if form == "shell":
        return "\n".join(
            f"export RDD_{key.upper()}={shell_quote(str(path))}" for key, path in paths.items()
        )
    if bare:
        return "\n".join(map(str, paths.values()))
    width = max(map(len, paths)) + 2
    return "\n".join(f"{key:<{width}}{path}" for key, path in paths.items())


def shell_quote(text: str) -> str:
    """Return `text` in double quotes for a shell.

    The documented format is Go's quoting; `$` and `` ` `` are escaped as well because a shell
    expands them.
    """
    return quote(text).replace("$", "\\$").replace("`", "\\`")
