# SPDX-License-Identifier: Apache-2.0
"""Command-line flags with the conventions of pflag, the Go library behind kubectl and docker.

`--name=value`, `--name value`, `-n value`, `-nvalue`, `-n=value`, clusters of
one-letter booleans; `--` ends the flags; flags and arguments may be mixed. A
boolean takes a value only after `=`. The last value of a flag wins, except for
the two repeatable kinds: `strings` collects whole values, `list` also splits
each at commas.

`FlagParser` is subclassed once per program (`rdd.cli.framework.flags`,
`rdd.kubectl.flags`); a subclass words the errors and nothing else. Written by
hand because every `rdd` call pays for it: argparse alone costs about as much as
all of `rdd version` (docs/design/0001-command-line-without-a-framework.md). The
records are named tuples for the same reason: a dataclass takes seven times as
long to define.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from rdd.base.gotext import parse_bool, parse_duration, quote

Visibility = Literal["shown", "developer", "hidden"]
Value = str | bool | int | float | list[str]
FlagKind = Literal["string", "strings", "list", "bool", "int", "duration"]

_REPEATABLE = ("strings", "list")
_EMPTY = {"bool": "false", "int": "0", "duration": "0"}


class Flag(NamedTuple):
    """The declaration of one `--flag`."""

    name: str
    help: str
    kind: FlagKind = "string"
    default: str = ""  # as a user would write it
    short: str = ""  # one letter
    implied: str = ""  # value of a bare `--flag`; empty: the flag needs a value (bool: "true")
    values: tuple[str, ...] = ()  # candidates for completion; the command validates them
    visibility: Visibility = "shown"

    @property
    def bare_value(self) -> str:
        """Return the value of `--flag` without one; empty if the flag needs a value."""
        return "true" if self.kind == "bool" else self.implied


class Flags(NamedTuple):
    """The parsed flags of a call by name, defaults included."""

    values: Mapping[str, Value]
    given: frozenset[str]  # flags that were on the command line

    def text(self, name: str) -> str:
        """Return the value of a string flag; empty for a repeatable one."""
        value = self.values[name]
        return "" if isinstance(value, list) else str(value)

    def texts(self, name: str) -> list[str]:
        """Return the values of a repeatable flag in their order; none for any other flag."""
        value = self.values[name]
        return list(value) if isinstance(value, list) else []

    def truth(self, name: str) -> bool:
        """Return the value of a bool flag."""
        return bool(self.values[name])

    def integer(self, name: str) -> int:
        """Return the value of an int flag."""
        value = self.values[name]
        return value if isinstance(value, int) else 0

    def seconds(self, name: str) -> float:
        """Return the value of a duration flag."""
        value = self.values[name]
        return float(value) if isinstance(value, int | float) else 0.0


class FlagParser:
    """Separates the flags of one call from its arguments.

    Of two declarations with the same name the later one counts. `values` continues
    from another parser, which read the words further left.
    """

    def __init__(self, flags: Iterable[Flag], *, values: Mapping[str, Value] | None = None) -> None:
        self.declared = {flag.name: flag for flag in flags}
        self._shorts = {flag.short: flag for flag in self.declared.values() if flag.short}
        self.values = dict(values or {})
        self.dash = -1
        """Number of arguments before `--`; -1 without one."""

    # -- error wording, for subclasses

    def unknown_flag(self, problem: str, name: str) -> Exception:
        """Return the error for a flag that is not declared."""
        raise NotImplementedError

    def missing_value(self, problem: str) -> Exception:
        """Return the error for a flag at the end of the words that needs a value."""
        raise NotImplementedError

    def invalid_value(self, problem: str) -> Exception:
        """Return the error for a value that is not of the flag's kind."""
        raise NotImplementedError

    def value_problem(self, flag: Flag, text: str, error: ValueError) -> str:
        """Describe why a text is not a value of the flag's kind."""
        return str(error)

    # -- parsing

    def parse(self, words: Sequence[str], *, until_argument: bool = False) -> list[str]:
        """Record the flags among `words` and return the arguments.

        With `until_argument` parsing ends at the first argument, which is returned
        with all words behind it.
        """
        arguments: list[str] = []
        pending = list(reversed(words))
        while pending:
            word = pending.pop()
            if word == "--":
                self.dash = len(arguments)
                return [*arguments, *reversed(pending)]
            if word.startswith("--"):
                self._long(word, pending)
            elif word.startswith("-") and word != "-":
                self._short(word, pending)
            elif until_argument:
                return [word, *reversed(pending)]
            else:
                arguments.append(word)
        return arguments

    def result(self) -> Flags:
        """Return the values parsed so far, with the defaults of all declared flags."""
        defaults = {name: _default(flag) for name, flag in self.declared.items()}
        return Flags({**defaults, **self.values}, frozenset(self.values))

    def _long(self, word: str, pending: list[str]) -> None:
        name, equals, value = word[2:].partition("=")
        flag = self.declared.get(name)
        if flag is None:
            raise self.unknown_flag(f"unknown flag: --{name}", name)
        self._set(flag, value if equals else None, pending, shown=f"--{name}")

    def _short(self, word: str, pending: list[str]) -> None:
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = self._shorts.get(letter)
            if flag is None:
                raise self.unknown_flag(f"unknown shorthand flag: {letter!r} in {word}", letter)
            value = None
            if letters.startswith("=") or (letters and not flag.bare_value):
                value, letters = letters.removeprefix("="), ""
            self._set(flag, value, pending, shown=f"{letter!r} in {word}")

    def _set(self, flag: Flag, text: str | None, pending: list[str], *, shown: str) -> None:
        if text is None:
            text = flag.bare_value
            if not text:
                if not pending:
                    raise self.missing_value(f"flag needs an argument: {shown}")
                text = pending.pop()
        try:
            value = _convert(flag, text)
        except ValueError as error:
            name = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            problem = self.value_problem(flag, text, error)
            raise self.invalid_value(
                f'invalid argument {quote(text)} for "{name}" flag: {problem}'
            ) from None
        earlier = self.values.get(flag.name)
        if isinstance(value, list) and isinstance(earlier, list):
            value = [*earlier, *value]
        self.values[flag.name] = value


def _convert(flag: Flag, text: str) -> Value:
    if flag.kind == "bool":
        return parse_bool(text)
    if flag.kind == "int":
        return _integer(text)
    if flag.kind == "duration":
        return parse_duration(text)
    if flag.kind == "strings":
        return [text]
    return text.split(",") if flag.kind == "list" else text


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("expected integer")
    return int(text)


def _default(flag: Flag) -> Value:
    if flag.kind in _REPEATABLE and not flag.default:
        return []
    return _convert(flag, flag.default or _EMPTY.get(flag.kind, ""))
