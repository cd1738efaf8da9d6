# SPDX-License-Identifier: Apache-2.0
"""Parsing of flags, with the conventions of pflag (the Go library of kubectl and the like).

`--name=value`, `--name value`, `-n value`, `-nvalue`, `-n=value`, clusters of
one-letter booleans, `--` ends the flags, flags and arguments may be mixed. A
boolean takes a value only after `=`. Written by hand because every `rdd` call
pays for it: argparse alone costs about as much as all of `rdd version`
(docs/design/0001-command-line-without-a-framework.md).
"""

from collections.abc import Mapping, Sequence

from rdd.base.gotext import parse_bool, parse_duration, quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import SEPARATOR, Flag, Flags, Value


class Parser:
    """Collects the flags of one call; `where` names the command in messages.

    A parser may continue from the values of another, found further left.
    """

    def __init__(
        self, known: Sequence[Flag], where: str, *, values: Mapping[str, Value] | None = None
    ) -> None:
        self._known = known
        self._where = where
        self.values = dict(values or {})

    def parse(self, args: Sequence[str], *, until_argument: bool = False) -> list[str]:
        """Take the flags out of `args` and return what is left.

        With `until_argument` the first thing that is not a flag ends the parsing
        and is returned with everything after it.
        """
        rest: list[str] = []
        pending = list(reversed(args))
        while pending:
            arg = pending.pop()
            if arg == "--":
                return [*rest, *reversed(pending)]
            if arg.startswith("--"):
                self._long(arg, pending)
            elif arg.startswith("-") and arg != "-":
                self._short(arg, pending)
            elif until_argument:
                return [arg, *reversed(pending)]
            else:
                rest.append(arg)
        return rest

    def _long(self, arg: str, pending: list[str]) -> None:
        name, equals, value = arg[2:].partition("=")
        flag = next((f for f in self._known if f.name == name), None)
        if flag is None:
            raise self._unknown(f"unknown flag: --{name}", name)
        self._take(flag, value if equals else None, pending, needs=f"--{name}")

    def _short(self, arg: str, pending: list[str]) -> None:
        letters = arg[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = next((f for f in self._known if f.short == letter), None)
            if flag is None:
                raise self._unknown(f"unknown shorthand flag: {letter!r} in {arg}", letter)
            value = None
            if letters.startswith("=") or (letters and not flag.bare_value):
                value, letters = letters.removeprefix("="), ""
            self._take(flag, value, pending, needs=f"{letter!r} in {arg}")

    def _take(self, flag: Flag, value: str | None, pending: list[str], *, needs: str) -> None:
        if value is None:
            value = flag.bare_value
            if not value:
                if not pending:
                    raise CommandError(f"flag needs an argument: {needs}{self._suffix()}")
                value = pending.pop()
        if flag.kind == "strings" and flag.name in self.values:
            value = f"{self.values[flag.name]}{SEPARATOR}{value}"
        self.values[flag.name] = convert(flag, value)

    def _unknown(self, problem: str, name: str) -> CommandError:
        if name == "instance":
            return CommandError(
                f"{problem}; it is only accepted as the first argument: rdd --instance NAME …"
            )
        names = ", ".join(sorted(f"--{f.name}" for f in self._known if f.visibility != "hidden"))
        return CommandError(f"{problem}{self._suffix()}; valid flags: {names}")

    def _suffix(self) -> str:
        return f" for {quote(self._where)}"

    def result(self) -> Flags:
        """Return what was parsed so far, with the defaults of all known flags."""
        defaults = {flag.name: _default(flag) for flag in self._known}
        return Flags({**defaults, **self.values}, frozenset(self.values))


def convert(flag: Flag, text: str) -> Value:
    """Return the value of a flag from its text. Raises CommandError."""
    try:
        if flag.kind == "bool":
            return parse_bool(text)
        if flag.kind == "int":
            return _integer(text)
        if flag.kind == "duration":
            return parse_duration(text)
    except ValueError as error:
        shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
        raise CommandError(f'invalid argument {quote(text)} for "{shown}" flag: {error}') from None
    return text


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("expected integer")
    return int(text)


def _default(flag: Flag) -> Value:
    empty = {"bool": "false", "int": "0", "duration": "0", "string": "", "strings": ""}
    return convert(flag, flag.default or empty[flag.kind])
