# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a CEL expression, and how it is worded.

    CelError
    ├── CompileError      the text does not parse, or its types do not fit
    │   └── ProgramError  a conversion of a constant always fails
    ├── EvaluationError   an operation failed: no such key, division by zero, …
    ├── CostExceeded      the evaluation was stopped because it costs too much
    └── Interrupted       the evaluation may go on, but not in a block of `interrupted_after`

`CostExceeded` is no `EvaluationError` on purpose: `||`, `&&`, `all` and
`exists` may forgive an error of one operand, and no expression may forgive
having run out of its budget.

The text of a `CompileError` is what cel-go prints, including the line of source
with a marker under the position, because clients see it in a Status.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdd.cel.types import Type

MAX_REPORTED_ISSUES = 100  # cel-go stops printing here
MAX_SNIPPET = 16384  # and shows no longer lines


class CelError(Exception):
    """Base of all errors of this package."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem at one place; `offset` counts code points of the expression, -1 for no place."""

    offset: int
    message: str


class CompileError(CelError):
    """An expression that cannot be run; the message names every issue."""

    def __init__(self, source: str, issues: Iterable[Issue]) -> None:
        self.source = source
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(render(source, self.issues))


class ProgramError(CompileError):
    """An expression of valid types with a constant that cannot be converted."""

    def __init__(self, reason: str) -> None:
        super().__init__("", ())
        self.args = (reason,)
        self.result_type: Type | None = None
        """The type of the whole expression."""


class EvaluationError(CelError):
    """An operation of an expression failed; the message is the one of cel-go."""


class NoSuchOverload(EvaluationError):
    """No version of a function or operator takes arguments of these types."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"no such overload: {detail}" if detail else "no such overload")


def conversion_error(target: str) -> EvaluationError:
    """Return the error for a text that is not a value of a type; cel-go gives no reason."""
    return EvaluationError(f"type conversion error from 'string' to '{target}'")


class CostExceeded(CelError):
    """An evaluation ran out of its own limit, or of what is left for the request (`is_total`)."""

    def __init__(self, *, is_total: bool) -> None:
        self.is_total = is_total
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(CelError):
    """Evaluations in a block cost more than the block allows; repeat them outside of it."""


def render(source: str, issues: Sequence[Issue]) -> str:
    """Return the issues as text in the order of their places, each with its line."""
    reported = sorted(issues[:MAX_REPORTED_ISSUES], key=lambda issue: issue.offset)
    texts = [_render_issue(source, issue) for issue in reported]
    if len(issues) > MAX_REPORTED_ISSUES:
        texts.append(f"{len(issues) - MAX_REPORTED_ISSUES} more errors were truncated")
    return "\n".join(texts)


def _render_issue(source: str, issue: Issue) -> str:
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    start = source.rfind("\n", 0, issue.offset) + 1
    line = source.count("\n", 0, issue.offset) + 1
    column = issue.offset - start
    end = source.find("\n", start)
    snippet = (source[start:] if end < 0 else source[start:end]).replace("\t", " ")
    if len(snippet) > MAX_SNIPPET:
        return f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    # Characters of several bytes get a full-width dot, so that the marker stays in its place.
    dots = "".join("." if char < "\x80" else "．" for char in snippet[:column])
    marker = "^" if column >= len(snippet) or snippet[column] < "\x80" else "＾"
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {snippet}\n | {dots}{marker}"
