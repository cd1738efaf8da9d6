# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a template: all of it at once, each with its place.

A problem reads `line 12: cpus: "four" is not a whole number`: where, the path, the value and
what is allowed. They are joined to one message, because whoever edits a file wants to fix
everything before trying again.
"""

from collections.abc import Sequence

_SHOWN = 60  # characters of a value in a message


class TemplateError(ValueError):
    """A template cannot be used; the text tells every problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class TemplateSyntaxError(TemplateError):
    """The text is not YAML, or not a mapping: nothing in it could be read."""


def shown(value: object) -> str:
    """A value as messages show it: quoted if it is text, and never long."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    cut = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    # Control characters would break the line; a lone surrogate could not be written at all.
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut
    )
    return '"' + visible.replace('"', '\\"') + '"'


def choices(allowed: Sequence[str]) -> str:
    """`"a", "b" or "c"`."""
    quoted = [f'"{item}"' for item in allowed]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
