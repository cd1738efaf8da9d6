# SPDX-License-Identifier: Apache-2.0
"""Variables in a template: `{{.Param.NAME}}`, `{{.Dir}}` and others.

Lima evaluates such texts with Go's template engine. Here fields are expanded, and Go's quoted
text (`{{"{{"}}`) expands to the text in the quotes. Every other text in braces stays
unchanged: scripts may contain braces (`docker ps --format '{{.ID}}'`).

User and home are those of the guest in texts that the guest runs, and those of this host in
paths of this host, as in Lima.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_EXPRESSION = re.compile(
    r"""\{\{-?\s*(?:
        \.Param\.(?P<param>[A-Za-z][A-Za-z0-9_]*)
      | \.(?P<name>Name|Hostname|Instance|Dir|Home|User|UID)
      | "(?P<quoted>[^"\\]*)"
      | `(?P<raw>[^`]*)`
    )\s*-?\}\}""",
    re.VERBOSE,
)
# Each part ends where another one could begin, so that a text is searched once.
_BRACES = re.compile(r"\{\{((?:(?!\{\{)[^}])*+)\}\}")
_PARAM_FIELD = re.compile(r"\.Param\.([A-Za-z][A-Za-z0-9_]*)")
_PARAM_VARIABLE = re.compile(r"\bPARAM_([A-Za-z][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The values of the variables."""

    name: str
    dir: str
    home: str
    user: str
    uid: int
    param: "dict[str, str]" = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        if name in ("Hostname", "Instance"):
            return hostname(self.name)
        return str(getattr(self, name.lower()))


def hostname(name: str) -> str:
    """Return the host name of a machine, as Lima does, without invalid characters."""
    return "lima-" + name.replace(".", "-").replace("_", "-")


def expand(text: str, variables: Variables) -> str:
    """Expand the variables of a text; an undeclared param stays unchanged."""
    if "{{" not in text:
        return text

    def value(match: "re.Match[str]") -> str:
        if param := match["param"]:
            return variables.param.get(param, match[0])
        if name := match["name"]:
            return variables[name]
        return match["quoted"] or match["raw"] or ""

    return _EXPRESSION.sub(value, text)


def params_read(text: str) -> Iterator[str]:
    """Yield the params in braces."""
    for braces in _BRACES.finditer(text):
        yield from (match[1] for match in _PARAM_FIELD.finditer(braces[1]))


def params_used(text: str) -> Iterator[str]:
    """Yield the params that a script refers to, in braces or as `PARAM_NAME`."""
    yield from params_read(text)
    yield from (match[1] for match in _PARAM_VARIABLE.finditer(text))
