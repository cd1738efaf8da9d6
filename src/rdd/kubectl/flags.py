# SPDX-License-Identifier: Apache-2.0
"""Flags as kubectl parses them.

The same conventions as rdd's own flags (`rdd.cli.framework.flags`), with what kubectl has
beyond them: flags that may be repeated, flags before the verb, its wording of
errors, and flags that a real kubectl knows but the built-in client does not,
which are refused by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from rdd.base.gotext import parse_bool, parse_duration, quote
from rdd.kubectl.failures import CtlError, Refused, unsupported

Kind = Literal["string", "bool", "int", "duration", "array", "list"]
Value = str | bool | int | float | list[str]


class Flag(NamedTuple):
    """One flag. An `array` collects its values, a `list` splits each at commas."""

    name: str
    help: str
    kind: Kind = "string"
    default: str = ""
    short: str = ""
    implied: str = ""  # the value of a bare `--flag`; empty: the flag needs a value

    @property
    def bare_value(self) -> str:
        """What `--flag` without a value means; empty when it needs one."""
        return "true" if self.kind == "bool" else self.implied


class Verb(NamedTuple):
    """What a sub-command is called and takes."""

    name: str
    usage: str
    summary: str
    flags: tuple[Flag, ...] = ()
    unsupported: tuple[str, ...] = ()  # flags of kubectl that the built-in client lacks


class Given:
    """The parsed flags of a call; a flag not given has its default."""

    def __init__(self, values: Mapping[str, Value], given: frozenset[str]) -> None:
        self._values = values
        self.given = given

    def text(self, name: str) -> str:
        """The value of a string flag; empty for one the command does not have.

        Also empty for a flag that a command has given another meaning, such as
        `--user` of `create rolebinding`: it may be repeated there.
        """
        value = self._values.get(name, "")
        return "" if isinstance(value, list) else str(value)

    def truth(self, name: str) -> bool:
        """The value of a bool flag."""
        return bool(self._values.get(name, False))

    def number(self, name: str) -> int:
        """The value of an int flag."""
        value = self._values[name]
        return value if isinstance(value, int) else 0

    def seconds(self, name: str) -> float:
        """The value of a duration flag."""
        value = self._values[name]
        return float(value) if isinstance(value, int | float) else 0.0

    def many(self, name: str) -> list[str]:
        """The values of a flag that may be repeated."""
        value = self._values.get(name)
        return list(value) if isinstance(value, list) else []


GLOBAL: tuple[Flag, ...] = (
    Flag("help", "show this text", "bool", short="h"),
    Flag("as", "user to act as"),
    Flag("as-group", "group to act as; may be repeated", "array"),
    Flag("as-uid", "UID to act as"),
    Flag("certificate-authority", "file with the certificate of the server's authority"),
    Flag("client-certificate", "file with a client certificate"),
    Flag("client-key", "file with the key of the client certificate"),
    Flag("cluster", "cluster of the kubeconfig to use"),
    Flag("context", "context of the kubeconfig to use"),
    Flag("insecure-skip-tls-verify", "do not check the server's certificate", "bool"),
    Flag("kubeconfig", "kubeconfig file to use"),
    Flag("namespace", "namespace of the request", short="n"),
    Flag("request-timeout", "how long to wait for one answer (0: for ever)", default="0"),
    Flag("server", "address of the API server", short="s"),
    Flag("tls-server-name", "name the server's certificate must have"),
    Flag("token", "bearer token"),
    Flag("user", "user of the kubeconfig to use"),
    Flag("v", "log requests: 6 lines, 8 with bodies", "int", default="0", short="v"),
    Flag("warnings-as-errors", "fail when the server warns", "bool"),
)
_GLOBAL_UNSUPPORTED = frozenset((
    "cache-dir", "disable-compression", "kuberc", "log-flush-frequency", "match-server-version",
    "password", "profile", "profile-output", "username", "vmodule",
))  # fmt: skip


def split_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """The first word that is no flag, and all the others.

    A flag before the verb may take the next word as its value; which verb it
    belongs to is not known yet, so every flag but the global booleans does.
    """
    switches = {f"--{f.name}" for f in GLOBAL if f.bare_value}
    switches |= {f"-{f.short}" for f in GLOBAL if f.bare_value and f.short}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            return word, [*words[:at], *words[at + 1 :]]
        takes_next = "=" not in word and word not in switches
        at += 2 if takes_next and (word.startswith("--") or len(word) == 2) else 1
    return "", list(words)


_GO_PARSERS = {
    "bool": "strconv.ParseBool: parsing",
    "int": "strconv.ParseInt: parsing",
    "duration": "time: invalid duration",
}
_GO_ENDING = {"bool": ": invalid syntax", "int": ": invalid syntax", "duration": ""}


class Parser:
    """Takes the flags of one verb out of its words."""

    def __init__(self, verb: Verb, *, path: str) -> None:
        self._flags = {f.name: f for f in (*GLOBAL, *verb.flags)}
        self._shorts = {f.short: f for f in self._flags.values() if f.short}
        self._unsupported = _GLOBAL_UNSUPPORTED | set(verb.unsupported)
        self._path = path
        self._values: dict[str, Value] = {}
        self.dash = -1
        """How many arguments came before `--`; -1 without one."""

    def parse(self, words: Iterable[str]) -> tuple[Given, list[str]]:
        """The flags, and what is left."""
        rest: list[str] = []
        pending = list(reversed(list(words)))
        while pending:
            word = pending.pop()
            if word == "--":
                self.dash = len(rest)
                rest.extend(reversed(pending))
                break
            if word.startswith("--"):
                self._long(word, pending)
            elif word.startswith("-") and word != "-":
                self._short(word, pending)
            else:
                rest.append(word)
        defaults = {name: _default(flag) for name, flag in self._flags.items()}
        return Given({**defaults, **self._values}, frozenset(self._values)), rest

    def _long(self, word: str, pending: list[str]) -> None:
        name, equals, value = word[2:].partition("=")
        flag = self._flags.get(name)
        if flag is None:
            if name in self._unsupported:
                raise unsupported(f"--{name} of {quote(self._path)}")
            raise self._usage_error(f"unknown flag: --{name}")
        self._take(flag, value if equals else None, pending, needs=f"--{name}")

    def _short(self, word: str, pending: list[str]) -> None:
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = self._shorts.get(letter)
            if flag is None:
                raise self._usage_error(f"unknown shorthand flag: {letter!r} in {word}")
            value = None
            if letters.startswith("=") or (letters and not flag.bare_value):
                value, letters = letters.removeprefix("="), ""
            self._take(flag, value, pending, needs=f"{letter!r} in {word}")

    def _take(self, flag: Flag, value: str | None, pending: list[str], *, needs: str) -> None:
        if value is None:
            value = flag.bare_value
            if not value:
                if not pending:
                    raise self._usage_error(f"flag needs an argument: {needs}")
                value = pending.pop()
        if flag.kind in ("array", "list"):
            before = self._values.get(flag.name)
            items = value.split(",") if flag.kind == "list" else [value]
            self._values[flag.name] = [*(before if isinstance(before, list) else ()), *items]
            return
        try:
            self._values[flag.name] = _convert(flag, value)
        except ValueError as error:
            shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise self._usage_error(
                f'invalid argument {quote(value)} for "{shown}" flag: {error}'
            ) from None

    def _usage_error(self, text: str) -> CtlError:
        return Refused(f"error: {text}\nSee '{self._path} --help' for usage.")


def _convert(flag: Flag, text: str) -> Value:
    try:
        if flag.kind == "bool":
            return parse_bool(text)
        if flag.kind == "int":
            return int(text)
        if flag.kind == "duration":
            return parse_duration(text)
    except ValueError:
        raise ValueError(f"{_GO_PARSERS[flag.kind]} {quote(text)}{_GO_ENDING[flag.kind]}") from None
    return text


def _default(flag: Flag) -> Value:
    if flag.kind in ("array", "list"):
        return flag.default.split(",") if flag.default else []
    empty = {"bool": "false", "int": "0", "duration": "0"}
    return _convert(flag, flag.default or empty.get(flag.kind, ""))
