# SPDX-License-Identifier: Apache-2.0
"""The contract between kinds that hold CEL expressions and the compiler that checks them.

Webhook configurations and policies check their expressions when they are written. The compiler
with its admission variables belongs to a higher layer, so the strategies of these kinds receive a
`CheckExpression` when they are created. With `accept_any`, expressions are stored unchecked and
fail when they are evaluated.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rdd.api.fielderrors import FieldError

EXPRESSIONS_BYTES = 28 * 1024
"""`work_bytes` of kinds with expressions: a few kilobytes of them take long to compile."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables an expression may use and the type it must have."""

    returns: str = "bool"
    """bool, string, `string or null`, object, patches, or any."""
    has_params: bool = False
    has_authorizer: bool = True
    variables: tuple[tuple[str, str], ...] | None = None
    """Names and expressions of the variables declared before it; None without `variables`."""
    is_mutation: bool = False
    """Whether it may construct objects."""


CheckExpression = Callable[[str, str, Scope], list[FieldError]]
"""Return the errors of an expression; the arguments are expression, field path and scope."""


def accept_any(expression: str, path: str, scope: Scope) -> list[FieldError]:
    """Accept every expression."""
    return []
