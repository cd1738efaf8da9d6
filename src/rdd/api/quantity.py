# SPDX-License-Identifier: Apache-2.0
"""Quantities: `100m`, `1.5Gi`, `2e3`.

A quantity is an exact decimal, an integer times a power of ten, together with
the family of suffixes it was written with. As in Kubernetes a quantity is
either "small" (an int64 and a scale) or "big" (no bounds); it shows in
`as_int64`, which only small quantities without a negative scale have, and in
the text, which small quantities that were already canonical keep as written.

Exponents come from users: no operation may write out 10**exponent for them, so
comparisons look at magnitudes first, and results of more than `_MAX_LENGTH`
digits are refused.
"""

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Self

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_NANO = -9
_MAX_DIGITS = 18  # factors of ten that surely fit into an int64
_MAX_LENGTH = 1000  # digits; far beyond any resource, and arithmetic still takes microseconds

# Possessive: digits that three parts could share would be tried in every combination.
_split = re.compile(
    r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)"
).fullmatch

_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()} | {0: ""}


class QuantityError(ValueError):
    """A text is no quantity, or a result cannot be represented."""


_FORMAT_WRONG = f"quantities must match the regular expression '{PATTERN}'"
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"
_TOO_MANY_DIGITS = "the result has too many digits"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """`unscaled` × 10^`scale`; equal, ordered and hashed by value."""

    unscaled: int
    scale: int = 0
    format: str = DECIMAL_SI
    is_big: bool = False
    written: str = field(default="", repr=False)
    """The text it was parsed from, if that is the canonical one."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the quantity a text stands for. Raises QuantityError with Kubernetes' message."""
        parts = _split(text)
        if parts is None or not text:
            raise QuantityError(_FORMAT_WRONG)
        sign, zeros, digits, decimals, suffix = parts.groups("")
        base, exponent, form = _interpret(suffix)
        negative = sign == "-"
        digits = digits or "0"
        small = cls._parse_small(text, digits, decimals, base, exponent, form, negative)
        if small is not None:
            return small
        if not (zeros or digits != "0" or decimals) or len(digits + decimals) > _MAX_LENGTH:
            raise QuantityError(_NUMERIC)
        unscaled, scale = int(digits + decimals), -len(decimals)
        if base == 10:
            scale += exponent
        else:
            unscaled <<= exponent
        unscaled, scale = _round_up(unscaled, scale, _NANO)
        if form == BINARY_SI:
            if _compare(unscaled, scale, _MAX_INT64, 0) > 0:
                unscaled, scale = _MAX_INT64, 0
            if unscaled > 0 and _compare(unscaled, scale, 1, 0) < 0:
                form = DECIMAL_SI
        return cls(-unscaled if negative else unscaled, scale, form, is_big=True)

    @classmethod
    def _parse_small(
        cls, text: str, digits: str, decimals: str, base: int, exponent: int, form: str,
        negative: bool,
    ) -> Self | None:  # fmt: skip
        """Return the quantity as Kubernetes' fast path makes it, None where that does not apply."""
        factor = 1
        if base == 10:
            scale = exponent
            room = _MAX_DIGITS - len(digits) - len(decimals)
        elif decimals:
            return None
        else:
            scale, factor = 0, 1 << exponent
            room = 15 - len(digits) - int(exponent * 3 / 10) - 1
        scale -= len(decimals)
        if room < 0 or scale < _NANO:
            return None
        shifted = digits + decimals
        value = int(shifted)
        result = value * factor
        if result > _MAX_INT64:
            return None
        if form == BINARY_SI:
            canonical = value & 0x07 != 0
        else:
            canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
        return cls(-result if negative else result, scale, form, written=text if canonical else "")

    @classmethod
    def of(cls, value: int, *, format: str = DECIMAL_SI) -> Self:
        """Return an integer as a quantity."""
        return cls(value, 0, format, is_big=not _MIN_INT64 <= value <= _MAX_INT64)

    def __str__(self) -> str:
        """Return the canonical text."""
        if self.written:
            return self.written
        if self.unscaled == 0:
            return "0"
        if self.format == BINARY_SI and _compare(abs(self.unscaled), self.scale, 1024, 0) >= 0:
            unscaled, scale = _round_up(abs(self.unscaled), self.scale, 0)
            if _compare(unscaled, scale, abs(self.unscaled), self.scale) == 0:
                return self._binary_text(unscaled * 10**scale)
        unscaled, power = _strip_tens(self.unscaled, self.scale)
        unscaled, power = unscaled * 10 ** (power % 3), power - power % 3
        if self.format == DECIMAL_EXPONENT:
            return f"{unscaled}e{power}" if power else str(unscaled)
        # Kubernetes drops the magnitude of what has no suffix; an exponent keeps the value.
        suffix = _DECIMAL_SUFFIX.get(power)
        return f"{unscaled}{suffix}" if suffix is not None else f"{unscaled}e{power}"

    def _binary_text(self, amount: int) -> str:
        power = 0
        while amount % 1024 == 0 and power < 6:
            amount, power = amount // 1024, power + 1
        return f"{'-' if self.unscaled < 0 else ''}{amount}{_BINARY_SUFFIX[power]}"

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def as_int64(self) -> int | None:
        """Return the value if it is an int64 by Kubernetes' cheap test, else None.

        None for `1000m` and `1.5Gi` too, although their values are integers.
        """
        if self.is_big or self.scale < 0 or self.scale > _MAX_DIGITS:
            return self.unscaled if self.unscaled == 0 and not self.is_big else None
        value = self.unscaled * 10**self.scale
        return value if _MIN_INT64 <= value <= _MAX_INT64 else None

    @property
    def is_integer(self) -> bool:
        """Return whether `as_int64` has a value."""
        return self.as_int64() is not None

    def as_approximate_float(self) -> float:
        """Return the value as a float, infinite if it is out of range."""
        try:
            base = float(self.unscaled)
            return base if self.scale == 0 else base * _pow10(self.scale)
        except OverflowError:
            return float("inf") * self.sign

    def value(self) -> int:
        """Return the value rounded up, away from zero, to an integer, within an int64."""
        if self.scale > _MAX_DIGITS:
            return _MAX_INT64 * self.sign
        unscaled, scale = _round_up(abs(self.unscaled), self.scale, 0)
        return max(_MIN_INT64, min(_MAX_INT64, self.sign * unscaled * int(10**scale)))

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1 as the value is smaller than, equal to or greater than another."""
        return _compare(self.unscaled, self.scale, other.unscaled, other.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash(_strip_tens(self.unscaled, self.scale))

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum, in the suffixes of the first operand unless it is zero."""
        form = self.format if self.unscaled else other.format
        if other.unscaled == 0 or self.unscaled == 0:
            kept = self if other.unscaled == 0 else other
            big = self.is_big or other.is_big
            return Quantity(kept.unscaled, kept.scale, form, is_big=big)
        if abs(self.scale - other.scale) > _MAX_LENGTH:
            raise QuantityError(_TOO_MANY_DIGITS)
        scale = min(self.scale, other.scale)
        total = self.unscaled * 10 ** (self.scale - scale)
        total += other.unscaled * 10 ** (other.scale - scale)
        if total.bit_length() > 4 * _MAX_LENGTH:
            raise QuantityError(_TOO_MANY_DIGITS)
        big = self.is_big or other.is_big or not _MIN_INT64 <= total <= _MAX_INT64
        return Quantity(total, scale, form, is_big=big)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.unscaled, self.scale, self.format, is_big=self.is_big)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Return the difference, in the suffixes of the first operand unless it is zero."""
        return self + -other


def _interpret(suffix: str) -> tuple[int, int, str]:
    """Return base, exponent and family of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            raise QuantityError(_SUFFIX) from None
        if not _MIN_INT64 <= exponent <= _MAX_INT64:
            raise QuantityError(_SUFFIX)
        # Go narrows the exponent to 32 bits
        return 10, (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT
    raise QuantityError(_SUFFIX)


def _compare(a: int, a_scale: int, b: int, b_scale: int) -> int:
    if a_scale == b_scale or a == 0 or b == 0 or (a > 0) != (b > 0):
        return (a > b) - (a < b)
    # Magnitudes first: bits bound the number of digits without counting them.
    sign = 1 if a > 0 else -1
    a_bits, b_bits = abs(a).bit_length(), abs(b).bit_length()
    if a_bits // 4 + a_scale > b_bits // 3 + 1 + b_scale:
        return sign
    if a_bits // 3 + 1 + a_scale < b_bits // 4 + b_scale:
        return -sign
    scale = min(a_scale, b_scale)
    a, b = a * 10 ** (a_scale - scale), b * 10 ** (b_scale - scale)
    return (a > b) - (a < b)


def _round_up(unscaled: int, scale: int, minimum: int) -> tuple[int, int]:
    """Return a non-negative amount with at least that scale, rounded up if digits are lost."""
    if scale >= minimum or unscaled == 0:
        return unscaled, max(scale, minimum) if unscaled == 0 else scale
    places = minimum - scale
    if places > unscaled.bit_length() // 3 + 1:
        return 1, minimum  # smaller than any unit, without writing out 10**places
    return -(-unscaled // 10**places), minimum


def _strip_tens(unscaled: int, scale: int) -> tuple[int, int]:
    if unscaled == 0:
        return 0, 0
    while unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale + 1
    return unscaled, scale


def _pow10(exponent: int) -> float:
    if exponent < -323:
        return 0.0
    return float("inf") if exponent > 308 else float(f"1e{exponent}")
