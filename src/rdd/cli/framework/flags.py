# SPDX-License-Identifier: Apache-2.0
"""Flags of `rdd` commands: the pflag parser with errors of one line.

An error names the command and the valid flags. `--instance` gets an explanation
of its own, because it is only accepted as the first argument.
"""

from collections.abc import Iterable, Mapping

from rdd.base.gotext import quote
from rdd.base.pflag import Flag, FlagParser, Value
from rdd.cli.framework.errors import CommandError


class Parser(FlagParser):
    """Parses the flags of one command; errors name the command as `where`."""

    def __init__(
        self, flags: Iterable[Flag], where: str, *, values: Mapping[str, Value] | None = None
    ) -> None:
        super().__init__(flags, values=values)
        self._suffix = f" for {quote(where)}"

    def unknown_flag(self, problem: str, name: str) -> CommandError:
        if name == "instance":
            return CommandError(
                f"{problem}; it is only accepted as the first argument: rdd --instance NAME …"
            )
        from rdd.cli.framework.suggestions import did_you_mean

        shown = [flag.name for flag in self.declared.values() if flag.visibility != "hidden"]
        hint = did_you_mean(name, shown, form="--{}") if len(name) > 1 else ""
        names = ", ".join(sorted(f"--{flag}" for flag in shown))
        return CommandError(f"{problem}{self._suffix}; " + (hint or f"valid flags: {names}"))

    def missing_value(self, problem: str) -> CommandError:
        return CommandError(f"{problem}{self._suffix}")

    def invalid_value(self, problem: str) -> CommandError:
        return CommandError(problem)
