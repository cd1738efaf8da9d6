# SPDX-License-Identifier: Apache-2.0
"""Regular expressions: `matches`, `find`, `findAll`.

The syntax is RE2's, executed by RE2: matching takes time linear in the text, so
a pattern cannot be used to hold up the server.
"""

import functools
from typing import Any

import re2

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import Library, regex_cost

LIBRARY = Library()

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@functools.lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern. Raises ValueError with the reason when it is no RE2 expression."""
    try:
        return re2.compile(pattern, options=_OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"error parsing regexp: {_reworded(text)}") from None


# The same errors as Go's regexp package words them.
_WORDING = (
    ("missing ): ", "missing closing ): "),
    ("missing ]: ", "missing closing ]: "),
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("trailing \\", "trailing backslash at end of expression: "),
)


def _reworded(text: str) -> str:
    for ours, theirs in _WORDING:
        if text.startswith(ours):
            return f"{theirs}`{text[len(ours) :]}`"
    complaint, colon, what = text.partition(": ")
    return f"{complaint}: `{what}`" if colon else text


def _pattern(pattern: str, prefix: str = "") -> Any:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise EvaluationError(f"{prefix}{error}") from None


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern, "Illegal regex: ").search(text)
    return "" if found is None else str(found[0])


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    result: list[str] = []
    for found in _pattern(pattern, "Illegal regex: ").finditer(text):
        if 0 <= limit <= len(result):
            break
        result.append(found[0])
    return result


def _declare() -> None:
    texts = (t.STRING, t.STRING)
    found = t.list_of(t.STRING)
    LIBRARY.function("matches", "matches", texts, t.BOOL, _matches, charge=regex_cost)
    LIBRARY.method("matches", "matches_string", texts, t.BOOL, _matches, charge=regex_cost)
    LIBRARY.method("find", "string_find_string", texts, t.STRING, _find, charge=regex_cost)
    LIBRARY.method("findAll", "string_find_all_string", texts, found, _find_all, charge=regex_cost)
    LIBRARY.method(
        "findAll", "string_find_all_string_int", (*texts, t.INT), found, _find_all,
        charge=lambda text, pattern, _: regex_cost(text, pattern),
    )  # fmt: skip


_declare()
