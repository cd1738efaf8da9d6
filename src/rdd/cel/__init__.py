# SPDX-License-Identifier: Apache-2.0
"""CEL, the expression language of Kubernetes' rules and policies.

This is the dialect of kube-apiserver 1.36: the language of cel-go with its
strings, lists, sets, optional and two-variable extensions and Kubernetes' own
libraries, with the same error texts, the same cost estimates and a cost limit at
run time.

    from rdd import cel

    env = cel.Environment({"self": cel.types.object_type("Spec", {"x": cel.types.INT})})
    rule = env.compile("self.x % 2 == 0", expect=cel.types.BOOL)   # may raise CompileError
    rule.cost.max                                                  # worst case, before running
    rule.evaluate({"self": {"x": 4}}, budget=cel.Budget())         # True; may raise
                                                                   # EvaluationError, CostExceeded

Data are JSON values and go in as they are, without copying. Results are JSON
values too, or the small classes of `rdd.cel.values` for what JSON lacks;
`to_json` and `to_text` convert them. Programs are safe to share between tasks
and threads, and worth keeping.

The passes, one module each: `lexer`, `parser` (with `macros`), `checker`,
`cost`, `compiler` (with `loops`). Functions are in `library`. Environments of
admission expressions are in `admission`.
"""

from rdd.cel import types
from rdd.cel.environment import (
    MATCH_CONDITIONS_BUDGET,
    PER_CALL_LIMIT,
    RUNTIME_BUDGET,
    Budget,
    Environment,
    Program,
    interrupted_after,
)
from rdd.cel.errors import (
    CelError,
    CompileError,
    CostExceeded,
    EvaluationError,
    Interrupted,
    Issue,
    NoSuchOverload,
    ProgramError,
)
from rdd.cel.escaping import escape, is_identifier
from rdd.cel.estimates import CostEstimate
from rdd.cel.results import to_json, to_text

__all__ = [
    "MATCH_CONDITIONS_BUDGET",
    "PER_CALL_LIMIT",
    "RUNTIME_BUDGET",
    "Budget",
    "CelError",
    "CompileError",
    "CostEstimate",
    "CostExceeded",
    "Environment",
    "EvaluationError",
    "Interrupted",
    "Issue",
    "NoSuchOverload",
    "Program",
    "ProgramError",
    "escape",
    "interrupted_after",
    "is_identifier",
    "to_json",
    "to_text",
    "types",
]
