# SPDX-License-Identifier: Apache-2.0
"""Environments and programs: the way from a text to a value.

An `Environment` declares the variables of an expression. Compiling gives a
`Program`, which can be evaluated any number of times; callers keep programs, as
compiling costs a thousand times as much as evaluating. Each evaluation is held
to a `Budget`.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rdd.cel import types as t
from rdd.cel.checker import Checker
from rdd.cel.compiler import Compiler
from rdd.cel.cost import estimate
from rdd.cel.errors import (
    CompileError,
    CostExceeded,
    EvaluationError,
    Interrupted,
    Issue,
    NoSuchOverload,
    ProgramError,
)
from rdd.cel.estimates import CostEstimate
from rdd.cel.functions import Overload
from rdd.cel.library import FUNCTIONS
from rdd.cel.parser import parse
from rdd.cel.readers import reader
from rdd.cel.values import steps

PER_CALL_LIMIT = 1_000_000
"""Cost of one evaluation of one expression; a tenth of a second in Kubernetes."""

RUNTIME_BUDGET = 10_000_000
"""Cost of all expressions of one request."""

MATCH_CONDITIONS_BUDGET = RUNTIME_BUDGET // 4
"""Cost of all match conditions of one webhook or policy."""


class Budget:
    """What the expressions of one request may still cost."""

    __slots__ = ("per_call", "remaining")

    def __init__(self, total: int = RUNTIME_BUDGET, *, per_call: int = PER_CALL_LIMIT) -> None:
        self.remaining = total
        self.per_call = per_call


_STEPS_PER_COST = 2
"""Elements of nested values that an expression may visit for a cost of 1 (`values.visit`)."""


_COST_PER_CHARACTER = 20
"""What compiling takes, in the time of evaluations: 3 µs per character."""


class _Allowance:
    """What the evaluations of a block may still cost together."""

    __slots__ = ("depth", "remaining")

    def __init__(self, cost: int) -> None:
        self.remaining = cost
        self.depth = 0
        """How many programs are running: a variable is evaluated inside of another program."""


_allowance: ContextVar[_Allowance | None] = ContextVar("rdd_cel_allowance", default=None)


@contextmanager
def interrupted_after(cost: int) -> Iterator[None]:
    """Raise Interrupted from this block when evaluating and compiling have cost this much.

    The block can then be repeated where it may take longer, because evaluations have no effects.
    """
    token = _allowance.set(_Allowance(cost))
    try:
        yield
    finally:
        _allowance.reset(token)


class Program:
    """A compiled expression."""

    __slots__ = ("_inputs", "_run", "_template", "cost", "expression", "referenced", "result_type")

    def __init__(
        self,
        expression: str,
        compiled: "_Compiled",
        result_type: t.Type,
        cost: CostEstimate,
        referenced: frozenset[str],
    ) -> None:
        self.expression = expression
        self.result_type = result_type
        self.cost = cost
        """The estimate for the worst case."""
        self.referenced = referenced
        """The variables the expression reads."""
        self._run = compiled.run
        self._template = compiled.template
        self._inputs = compiled.inputs

    def evaluate(self, bindings: Mapping[str, Any], *, budget: Budget) -> Any:
        """Return the value of the expression for some values of its variables.

        Raises EvaluationError when an operation fails, and CostExceeded when it
        costs more than one call may or than the budget has left.
        """
        allowance = _allowance.get()
        if allowance is None:
            return self._evaluate(bindings, budget, None)
        share = allowance.remaining // (allowance.depth + 1)
        before = budget.remaining
        allowance.depth += 1
        try:
            return self._evaluate(bindings, budget, share)
        finally:
            allowance.depth -= 1
            allowance.remaining -= before - budget.remaining

    def _evaluate(self, bindings: Mapping[str, Any], budget: Budget, allowed: int | None) -> Any:
        per_call, remaining = budget.per_call, budget.remaining
        limit = per_call if per_call <= remaining else remaining
        is_interruptible = allowed is not None and allowed < limit
        if is_interruptible:
            assert allowed is not None
            limit = allowed
        outer = steps.left
        steps.left = room = limit * _STEPS_PER_COST
        frame = self._template.copy()
        frame[0] = limit
        try:
            for name, slot, convert in self._inputs:
                value = bindings[name]
                frame[slot] = value if convert is None else convert(value)
            result = self._run(frame)
        except CostExceeded:
            if is_interruptible:
                raise Interrupted from None
            is_total = limit < per_call
            if is_total:
                budget.remaining = 0
            raise CostExceeded(is_total=is_total) from None
        except KeyError as error:
            raise EvaluationError(f"no such attribute(s): {error.args[0]}") from None
        except (TypeError, AttributeError) as error:
            # A null where the schema promises a value; everything else is matched by its type.
            raise NoSuchOverload from error
        except RecursionError:
            raise EvaluationError("the data is nested too deeply to evaluate") from None
        finally:
            visited = room - max(steps.left, 0)
            steps.left = outer
            budget.remaining -= limit - max(frame[0], 0) + visited // _STEPS_PER_COST
        return result


class _Compiled:
    def __init__(self, variables: Mapping[str, t.Type], compiler: Compiler, run: Any) -> None:
        self.run = run
        self.template: list[Any] = [None] * compiler.frame_size
        self.inputs = tuple(
            (name, slot, reader(variables[name])) for name, slot in compiler.inputs.items()
        )


class Environment:
    """The variables of expressions.

    `size_root` is the type the cost estimate looks up sizes in, for variables
    that come from a schema with bounds. `object_types` returns the types that
    expressions may construct, `functions` are further ones.
    """

    def __init__(
        self,
        variables: Mapping[str, t.Type],
        *,
        size_root: t.Type | None = None,
        object_types: Callable[[str], t.Type | None] = lambda _: None,
        functions: Mapping[str, tuple[Overload, ...]] | None = None,
    ) -> None:
        self.variables: dict[str, t.Type] = dict(variables)
        self._size_root = size_root
        self._object_types = object_types
        self._functions = {**FUNCTIONS, **functions} if functions else FUNCTIONS

    def extended(self, variables: Mapping[str, t.Type]) -> "Environment":
        """Return an environment with more variables."""
        found = copy.copy(self)
        found.variables = {**self.variables, **variables}
        return found

    def compile(self, expression: str, *, expect: t.Type | None = None) -> Program:
        """Compile an expression. Raises CompileError, also when it is not of type `expect`."""
        allowance = _allowance.get()
        if allowance is not None:
            allowance.remaining -= len(expression) * _COST_PER_CHARACTER
            if allowance.remaining < 0:
                raise Interrupted
        tree = parse(expression)
        checker = Checker(self.variables, self._functions, self._object_types)
        checker.check(tree)
        if checker.issues:
            raise CompileError(expression, checker.issues)
        if expect is not None and not t.same(tree.type, expect):
            message = f"must evaluate to {expect} but got {tree.type}"
            raise CompileError(expression, [Issue(tree.pos, message)])
        compiler = Compiler()
        try:
            run = compiler.compile(tree)
        except ProgramError as error:
            error.result_type = tree.type
            raise
        return Program(
            expression,
            _Compiled(self.variables, compiler, run),
            tree.type,
            estimate(tree, self._size_root),
            frozenset(checker.referenced),
        )
