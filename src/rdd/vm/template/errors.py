# SPDX-License-Identifier: Apache-2.0
"""Errors in a template: all of them together, each with its location.

A value of the wrong type reads `line 12: cpus: "four" is not a whole number`: line, path, value
and what is allowed. A field that breaks a rule is reported in Lima's form, which scripts look for:
``field `arch` must be "x86_64" or "aarch64"; got `cray-1` ``. All problems are joined to one
message, so that a user can fix them in one edit.
"""

import re
from collections.abc import Sequence

# What a rule yields: `path: value must …` or `path: must …`.
_of_rule = re.compile(
    r'([\w.\[\]-]+): (?:("(?:[^"\\]|\\.)*"|-?\d+|\[[^\]]*\]) )?(.+)', re.DOTALL
).fullmatch
_VERBS = ("must ", "is ", "has ", "needs ")
_MAX_SHOWN = 60  # characters of a value in a message


class TemplateError(ValueError):
    """A template is invalid; the text lists all problems."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class TemplateSyntaxError(TemplateError):
    """The text is not YAML, or not a mapping: nothing of it could be parsed."""


def shown(value: object) -> str:
    """Return a value in the form of messages: text is quoted, long values are cut."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    cut = value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "…"
    # Control characters would break the line; a lone surrogate cannot be encoded.
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut
    )
    return '"' + visible.replace('"', '\\"') + '"'


def in_limas_form(problem: str) -> str:
    """Return the problem of a field as Lima words it."""
    found = _of_rule(problem)
    if found is None:
        return problem
    path, value, rest = found.groups()
    subject = f"field `{path}`" if rest.startswith(_VERBS) else f"field `{path}`:"
    if value is None:
        return f"{subject} {rest}"
    if value.startswith('"'):
        value = value[1:-1].replace('\\"', '"')
    return f"{subject} {rest}; got `{value}`"


def choices(allowed: Sequence[str]) -> str:
    """Return `"a", "b" or "c"`."""
    quoted = [f'"{item}"' for item in allowed]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
