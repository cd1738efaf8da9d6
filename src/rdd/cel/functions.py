# SPDX-License-Identifier: Apache-2.0
"""Declarations of functions: what the checker matches and the compiler calls.

A function is a name with overloads. An overload is a signature with an
implementation, which gets plain values whose types already fit. Libraries
declare theirs in a `Library`; the set of all libraries is put together once, in
`rdd.cel.library`, and shared by every environment.

Costs: an overload without `charge` costs 1. With it, the arguments decide, and
the cost is taken before the work is done, so that no call can outrun its budget.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rdd.cel import types as t

TRAVERSAL = 0.1  # cost of looking at one character
REGEX = 0.25  # cost of one character of a pattern, per unit of traversal


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function. `args` of a member overload begin with the receiver."""

    id: str
    function: str
    args: tuple[t.Type, ...]
    result: t.Type
    impl: Callable[..., Any]
    is_member: bool = False
    charge: Callable[..., int] | None = None

    @property
    def is_generic(self) -> bool:
        """Return whether the signature has type parameters."""
        return any(map(t.has_params, (*self.args, self.result)))


class Library:
    """Collects the overloads a module declares."""

    def __init__(self) -> None:
        self.overloads: list[Overload] = []

    def function(
        self,
        name: str,
        overload_id: str,
        args: Iterable[t.Type],
        result: t.Type,
        impl: Callable[..., Any],
        *,
        charge: Callable[..., int] | None = None,
    ) -> None:
        """Declare `name(args)`."""
        self.overloads.append(Overload(overload_id, name, tuple(args), result, impl, charge=charge))

    def method(
        self,
        name: str,
        overload_id: str,
        args: Iterable[t.Type],
        result: t.Type,
        impl: Callable[..., Any],
        *,
        charge: Callable[..., int] | None = None,
    ) -> None:
        """Declare `receiver.name(args)`; the first of `args` is the receiver."""
        self.overloads.append(
            Overload(overload_id, name, tuple(args), result, impl, is_member=True, charge=charge)
        )


def traversal(value: Any, *_: Any) -> int:
    """Return the cost of one pass over the first argument."""
    return math.ceil(len(value) * TRAVERSAL)


def double_traversal(value: Any, *_: Any) -> int:
    """Return the cost of a pass over the first argument and building a result from it."""
    return math.ceil(len(value) * 2 * TRAVERSAL)


def regex_cost(text: str, pattern: str) -> int:
    """Return the cost of matching a pattern."""
    return math.ceil((1 + len(text)) * TRAVERSAL) * math.ceil(len(pattern) * REGEX)
