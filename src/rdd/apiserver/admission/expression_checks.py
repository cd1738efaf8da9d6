# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the CEL expressions of webhooks and policies when they are written."""

from rdd.apiserver.kinds.expressions import Scope


def check(expression: str, scope: Scope) -> str | None:
    """Why an expression cannot be used, None if it can (see `rdd.apiserver.kinds.expressions`)."""
    # CEL is large, and most servers never see an admission expression.
    from rdd.cel import admission
    from rdd.cel import types as t

    environment = admission.environment(
        has_params=scope.has_params, has_authorizer=scope.has_authorizer
    )
    if scope.variables:
        environment = admission.Variables(environment, scope.variables).environment
    returns = {
        "bool": (t.BOOL,),
        "string": (t.STRING,),
        "string or null": (t.STRING, t.NULL),
        "any": (),
    }[scope.returns]
    return admission.problem(environment, expression, *returns)
