# SPDX-License-Identifier: Apache-2.0
"""Ranges of costs and sizes, in saturating 64-bit arithmetic.

Numbers stop at 2⁶⁴-1 like the unsigned integers they are in Kubernetes, so that
an estimate without a bound stays one, whatever is added to it.
"""

import math
from typing import NamedTuple

MAX = (1 << 64) - 1
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40
"""What it costs to make an empty one."""


class Estimate(NamedTuple):
    """A range of costs or sizes."""

    min: int
    max: int

    def plus(self, other: "Estimate") -> "Estimate":
        """Return both added."""
        return Estimate(cap(self.min + other.min), cap(self.max + other.max))

    def times(self, other: "Estimate") -> "Estimate":
        """Return both multiplied."""
        return Estimate(cap(self.min * other.min), cap(self.max * other.max))

    def scaled(self, factor: float) -> "Estimate":
        """Return multiplied by a factor, rounded up."""
        return Estimate(_scaled(self.min, factor), _scaled(self.max, factor))

    def union(self, other: "Estimate") -> "Estimate":
        """Return the range that holds both."""
        return Estimate(min(self.min, other.min), max(self.max, other.max))


CostEstimate = Estimate


def cap(value: int) -> int:
    """Return a number that does not exceed what 64 bits hold."""
    return value if value < MAX else MAX


def _scaled(value: int, factor: float) -> int:
    scaled = float(value) * factor
    return MAX if scaled >= 18446744073709551616.0 else math.ceil(scaled)


def fixed(value: int) -> Estimate:
    """Return a range of one value."""
    return Estimate(value, value)


ZERO, ONE, UNKNOWN = fixed(0), fixed(1), Estimate(0, MAX)
