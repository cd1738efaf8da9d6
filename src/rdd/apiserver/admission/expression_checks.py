# SPDX-License-Identifier: Apache-2.0
"""Checks of the CEL expressions in webhook configurations and policies when they are written."""

from rdd.api import fielderrors
from rdd.api.fielderrors import FieldError
from rdd.apiserver.kinds.expressions import Scope


def check_expression(expression: str, path: str, scope: Scope) -> list[FieldError]:
    """Compile an expression and return its errors (a `kinds.expressions.CheckExpression`)."""
    # CEL is a large import, and most servers never receive an admission expression.
    from rdd.cel import admission
    from rdd.cel import types as t
    from rdd.cel.errors import ProgramError

    environment = admission.environment(
        has_params=scope.has_params, has_authorizer=scope.has_authorizer
    )
    if scope.variables is not None:
        environment = admission.Variables(environment, scope.variables).environment
    returns = {
        "bool": (t.BOOL,),
        "string": (t.STRING,),
        "string or null": (t.STRING, t.NULL),
        "any": (),
    }[scope.returns]
    try:
        detail = admission.problem(environment, expression, *returns)
    except ProgramError as error:
        detail = f"program instantiation failed: {error}"
        return [FieldError("Internal", path, detail=detail)]
    return [fielderrors.invalid(path, expression, detail)] if detail else []
