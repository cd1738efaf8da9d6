# SPDX-License-Identifier: Apache-2.0
"""The place where admission's CEL expressions are checked when they are written.

Kinds that hold expressions ask here what is wrong with one. Who answers is set
once by the server (`use`), because the CEL compiler with its admission
variables lives elsewhere; without an answerer, expressions are stored as given
and fail when they are evaluated.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may use and must yield."""

    returns: str = "bool"
    """bool, string, `string or null`, or any."""
    has_params: bool = False
    has_authorizer: bool = True
    variables: tuple[tuple[str, str], ...] = ()
    """Names and expressions of the variables declared before it."""


Check = Callable[[str, Scope], str | None]
"""Returns why an expression is wrong, None if it is not."""

_check: Check | None = None


def use(check: Check | None) -> None:
    """Let expressions be checked by this function from now on."""
    global _check
    _check = check


def errors(expression: str, path: str, scope: Scope) -> list[FieldError]:
    """The errors of an expression."""
    detail = _check(expression, scope) if _check is not None else None
    return [fielderrors.invalid(path, expression, detail)] if detail else []
