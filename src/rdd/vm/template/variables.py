# SPDX-License-Identifier: Apache-2.0
"""What stands between braces in a template: `{{.Param.NAME}}`, `{{.Dir}}` and the like.

Lima runs such texts through Go's template engine. Here the fields are replaced, and Go's
quoted text (`{{"{{"}}`) stands for what is in the quotes. Everything else between braces stays
as it is: scripts have reasons of their own for braces (`docker ps --format '{{.ID}}'`).

A name means the guest's user and home in what the guest runs, and this machine's in paths of
this machine, as in Lima.
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
_PARAM_FIELD = re.compile(r"\{\{[^}]*?\.Param\.([A-Za-z][A-Za-z0-9_]*)[^}]*\}\}")
_PARAM_VARIABLE = re.compile(r"\bPARAM_([A-Za-z][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The values of the names."""

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
    """The host name of a machine: that of Lima, without what host names may not have."""
    return "lima-" + name.replace(".", "-").replace("_", "-")


def expand(text: str, variables: Variables) -> str:
    """The text with its names replaced; a param that is not declared stays as it is."""
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
    """The params between braces."""
    return (match[1] for match in _PARAM_FIELD.finditer(text))


def params_used(text: str) -> Iterator[str]:
    """The params that a script refers to, between braces or as `PARAM_NAME`."""
    yield from params_read(text)
    yield from (match[1] for match in _PARAM_VARIABLE.finditer(text))
