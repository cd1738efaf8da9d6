# SPDX-License-Identifier: Apache-2.0
"""Semantic versions: `semver('1.2.3')`, compared by the rules of semver.org."""

import re
from dataclasses import dataclass

from rdd.base.gotext import quote
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import Library, traversal
from rdd.cel.values import TYPES

LIBRARY = Library()

_MAX = (1 << 64) - 1
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+\Z")


@dataclass(frozen=True, slots=True)
class Semver:
    """A version; build metadata does not take part in comparing."""

    numbers: tuple[int, int, int]
    pre: tuple[tuple[int, int, str], ...]  # (is text, number, text), which sorts as it should

    @property
    def order(self) -> tuple[object, ...]:
        """Return what comparing versions compares: a release comes after its pre-releases."""
        return (self.numbers, not self.pre, self.pre)


TYPES[Semver] = t.SEMVER


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(
            f"{name.capitalize()} number must not contain leading zeroes {quote(text)}"
        )
    value = int(text[:25])
    if value > _MAX:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return value


def _pre_release(text: str) -> tuple[int, int, str]:
    if not text:
        raise ValueError("prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text[0] == "0":
            raise ValueError(
                f"Numeric PreRelease version must not contain leading zeroes {quote(text)}"
            )
        return (0, int(text[:25]), "")
    if not _IDENTIFIER.match(text):
        raise ValueError(f"Invalid character(s) found in prerelease {quote(text)}")
    return (1, 0, text)


def _parse(text: str) -> Semver:
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    patch, plus, build = parts[2].partition("+")
    patch, dash, pre = patch.partition("-")
    numbers = (_number(parts[0], "major"), _number(parts[1], "minor"), _number(patch, "patch"))
    releases = tuple(_pre_release(part) for part in pre.split(".")) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise ValueError("Build meta data is empty")
        if not _IDENTIFIER.match(part):
            raise ValueError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(numbers, releases)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            rest = part.lstrip("0")
            parts[i] = rest if rest[:1].isdigit() else "0" + rest
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def parse_version(text: str, normalize: bool = False) -> Semver:
    """Return the version a text stands for. Raises EvaluationError."""
    try:
        return _parse(_normalized(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        parse_version(text, normalize)
    except EvaluationError:
        return False
    return True


def _compare(left: Semver, right: Semver) -> int:
    a, b = left.order, right.order
    return (a > b) - (a < b)


def _declare() -> None:
    function, method, version = LIBRARY.function, LIBRARY.method, t.SEMVER
    text, choice = (t.STRING,), (t.STRING, t.BOOL)
    function("semver", "string_to_semver", text, version, parse_version, charge=traversal)
    function("semver", "string_bool_to_semver", choice, version, parse_version, charge=traversal)
    function("isSemver", "is_semver_string", text, t.BOOL, _is_version, charge=traversal)
    function("isSemver", "is_semver_string_bool", choice, t.BOOL, _is_version, charge=traversal)
    both = (version, version)
    method("isGreaterThan", "semver_is_greater_than", both, t.BOOL, lambda a, b: _compare(a, b) > 0)
    method("isLessThan", "semver_is_less_than", both, t.BOOL, lambda a, b: _compare(a, b) < 0)
    method("compareTo", "semver_compare_to", both, t.INT, _compare)
    method("major", "semver_major", (version,), t.INT, lambda v: v.numbers[0])
    method("minor", "semver_minor", (version,), t.INT, lambda v: v.numbers[1])
    method("patch", "semver_patch", (version,), t.INT, lambda v: v.numbers[2])


_declare()
