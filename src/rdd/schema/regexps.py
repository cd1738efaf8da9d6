# SPDX-License-Identifier: Apache-2.0
"""Patterns of schemas: Go's regular expressions.

Go's syntax is RE2's, and so is its guarantee of linear time, which a server
that runs other people's patterns needs. Only the wording of syntax errors
differs between the C++ library and Go; users see Go's.
"""

from functools import lru_cache
from typing import Any

import re2


class PatternError(ValueError):
    """A pattern is not a regular expression; the text is Go's."""


# C++ wording → Go wording; the offending part follows in both.
_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
}


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern (an re2 object: use `search`).

    PatternError if it has a bad syntax.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        raise PatternError(_go_text(error)) from None


def _go_text(error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    words, _, part = text.partition(": ")
    words = _WORDS.get(words, words)
    return f"error parsing regexp: {words}: `{part}`"
