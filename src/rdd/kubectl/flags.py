# SPDX-License-Identifier: Apache-2.0
"""Flags of kubectl: its global flags, the pflag parser in its wording, flags before the verb.

A flag that the real kubectl has and the built-in client lacks is rejected by
name, so that a script never relies on a flag that was ignored.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rdd.base.gotext import quote
from rdd.base.pflag import Flag, FlagParser, Flags, Value
from rdd.kubectl.errors import KubectlError, VerbatimError, unsupported


class Verb(NamedTuple):
    """The declaration of a sub-command."""

    name: str
    usage: str
    summary: str
    flags: tuple[Flag, ...] = ()
    unsupported: tuple[str, ...] = ()  # flags of kubectl that the built-in client lacks


class _Values(dict[str, Value]):
    """Values by flag name; a flag that the verb does not declare is empty."""

    def __missing__(self, name: str) -> Value:
        return ""


def make_flags(values: Mapping[str, Value], given: frozenset[str] | None = None) -> Flags:
    """Return flags as a verb reads them; every flag in `values` counts as given by default."""
    return Flags(_Values(values), frozenset(values) if given is None else given)


GLOBAL: tuple[Flag, ...] = (
    Flag("help", "show help", "bool", short="h"),
    Flag("as", "user to impersonate"),
    Flag("as-group", "group to impersonate; may be repeated", "strings"),
    Flag("as-uid", "UID to impersonate"),
    Flag("certificate-authority", "file with the CA certificate of the server"),
    Flag("client-certificate", "file with a client certificate"),
    Flag("client-key", "file with the key of the client certificate"),
    Flag("cluster", "cluster of the kubeconfig to use"),
    Flag("context", "context of the kubeconfig to use"),
    Flag("insecure-skip-tls-verify", "do not verify the server's certificate", "bool"),
    Flag("kubeconfig", "kubeconfig file to use"),
    Flag("namespace", "namespace of the request", short="n"),
    Flag("request-timeout", "timeout of one request; 0 means no limit", default="0"),
    Flag("server", "address of the API server", short="s"),
    Flag("tls-server-name", "host name in the server's certificate"),
    Flag("token", "bearer token"),
    Flag("user", "user of the kubeconfig to use"),
    Flag("v", "log requests: 6 one line each, 8 with bodies", "int", default="0", short="v"),
    Flag("warnings-as-errors", "fail when the server warns", "bool"),
)
_GLOBAL_UNSUPPORTED = frozenset((
    "cache-dir", "disable-compression", "kuberc", "log-flush-frequency", "match-server-version",
    "password", "profile", "profile-output", "username", "vmodule",
))  # fmt: skip


def split_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the first word that is not a flag, and the other words.

    A flag before the verb may have the next word as its value. The verb's flags are
    not declared yet at this point, so every flag but the global booleans has one.
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
    "bool": "strconv.ParseBool: parsing {}: invalid syntax",
    "int": "strconv.ParseInt: parsing {}: invalid syntax",
    "duration": "time: invalid duration {}",
}


class VerbParser(FlagParser):
    """Parses the flags of one verb; errors refer to the help of `path`."""

    def __init__(self, verb: Verb, *, path: str) -> None:
        super().__init__((*GLOBAL, *verb.flags))
        self._unsupported = _GLOBAL_UNSUPPORTED | set(verb.unsupported)
        self._path = path

    def result(self) -> Flags:
        values, given = super().result()
        return make_flags(values, given)

    def unknown_flag(self, problem: str, name: str) -> KubectlError:
        if name in self._unsupported:
            return unsupported(f"--{name} of {quote(self._path)}")
        return self.invalid_value(problem)

    def missing_value(self, problem: str) -> KubectlError:
        return self.invalid_value(problem)

    def invalid_value(self, problem: str) -> KubectlError:
        return VerbatimError(f"error: {problem}\nSee '{self._path} --help' for usage.")

    def value_problem(self, flag: Flag, text: str, error: ValueError) -> str:
        return _GO_PARSERS[flag.kind].format(quote(text))
