# SPDX-License-Identifier: Apache-2.0
"""Checks of the CEL expressions in webhook configurations and policies when they are written."""

from typing import TYPE_CHECKING

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError
from rdd.apiserver.kinds.expressions import Scope

if TYPE_CHECKING:
    from rdd.cel.admission import Variables
    from rdd.cel.environment import Environment


_MAX_KEPT = 4
_kept: "dict[tuple[object, ...], Variables]" = {}
"""Compiled variables: each expression of a policy is checked with all those before it."""


def _variables(scope: Scope, environment: "Environment") -> "Variables":
    """Return the compiled variables of a scope; the work is one expression per variable."""
    from rdd.cel.admission import Variables

    named = scope.variables or ()
    base = scope.has_params, scope.has_authorizer, scope.is_mutation
    found = _kept.get((*base, named))
    if found is not None:
        return found
    # Validation declares one variable after the other: the longest prefix is extended.
    found = _kept.pop((*base, named[:-1]), None) if named else None
    if found is None:
        found = Variables(environment, named)
    else:
        found.add(*named[-1])
    while len(_kept) >= _MAX_KEPT:
        _kept.pop(next(iter(_kept), None), None)  # type: ignore[arg-type]
    _kept[(*base, named)] = found
    return found


def check_expression(expression: str, path: str, scope: Scope) -> list[FieldError]:
    """Compile an expression and return its errors (a `kinds.expressions.CheckExpression`)."""
    # CEL is a large import, and most servers never receive an admission expression.
    from rdd.cel import admission, mutation
    from rdd.cel import types as t
    from rdd.cel.errors import ProgramError

    environment = admission.environment(
        has_params=scope.has_params,
        has_authorizer=scope.has_authorizer,
        is_mutation=scope.is_mutation,
    )
    if scope.variables is not None:
        environment = _variables(scope, environment).environment
    returns = {
        "bool": (t.BOOL,),
        "string": (t.STRING,),
        "string or null": (t.STRING, t.NULL),
        "object": (mutation.OBJECT,),
        "patches": (mutation.JSON_PATCHES,),
        "any": (),
    }[scope.returns]
    try:
        detail = admission.problem(environment, expression, *returns)
    except ProgramError as error:
        detail = f"program instantiation failed: {error}"
        return [FieldError("Internal", path, detail=detail)]
    return [fielderrors.invalid(path, expression, detail)] if detail else []
