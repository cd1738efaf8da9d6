# SPDX-License-Identifier: Apache-2.0
"""Names of JSON fields as CEL identifiers, escaped the Kubernetes way.

A property whose name is no identifier, or is a word of the language, is visible
in expressions under an escaped name: `x-y.z` is `x__dash__y__dot__z`, and
`namespace` is `__namespace__`. Names with other characters have no CEL name and
cannot be used in rules.
"""

import re

RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return", "var",
        "void", "while",
    )
)  # fmt: skip

_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_ESCAPABLE = re.compile(r"[a-zA-Z0-9_./-]+\Z")
_EXPANDED = re.compile(r"__|[.\-/]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape(name: str) -> str | None:
    """Return the CEL name of a property, or None when it cannot have one."""
    if name in RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.match(name) or name[0].isdigit():
        return None
    return _EXPANDED.sub(lambda found: _ESCAPES[found[0]], name)


def is_identifier(name: str) -> bool:
    """Return whether a text can name a variable."""
    return bool(_IDENTIFIER.match(name)) and name not in RESERVED
