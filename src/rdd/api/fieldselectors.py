# SPDX-License-Identifier: Apache-2.0
"""Field selectors: `metadata.name=a,spec.nodeName!=b`.

Terms are separated by commas; in a value `,`, `=` and `\\` are escaped with a
backslash. Which fields can be selected depends on the kind, so the endpoint
calls `check` with its list. Values are compared as text, and a field without
a value is the empty text.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rdd.api.errors import BadRequest
from rdd.base import gotext

MAX_TERMS = 16_000
"""As in label selectors: parsing more would take too long."""

EQUALS, NOT_EQUALS = "=", "!="

_operator = re.compile(r"!=|==|=").search
_term = re.compile(r"(?:\\.|[^\\,])*(?:\\\Z)?", re.DOTALL).match


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on one field; `operator` is `=` or `!=`."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """The conjunction of terms; without any it matches everything."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether it does not restrict anything."""
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether an object with these field values is selected."""
        for term in self.terms:
            if (fields.get(term.field, "") == term.value) != (term.operator == EQUALS):
                return False
        return True

    def check(self, supported: Container[str], *, has_own_labels: bool = True) -> None:
        """Raise BadRequest if a field cannot be selected.

        `has_own_labels` chooses between the two wordings of Kubernetes: true for custom
        resources and for built-in kinds that add fields to name and namespace.
        """
        for term in self.terms:
            if term.field in supported:
                continue
            if has_own_labels:
                raise BadRequest(f"field label not supported: {term.field}")
            raise BadRequest(
                f"{gotext.quote(term.field)} is not a known field selector: "
                'only "metadata.name", "metadata.namespace"'
            )

    def exact_value(self, field: str) -> str | None:
        """Return the value a field must have, None if there is no such term."""
        for term in self.terms:
            if term.field == field and term.operator == EQUALS:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(str(t) for t in self.terms)


EVERYTHING = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Return the selector a fieldSelector parameter stands for, terms sorted as text.

    Raises BadRequest with Kubernetes' explanation.
    """
    return _parse_cached(text) if len(text) <= 1024 else _parse(text)


def _parse(text: str) -> FieldSelector:
    terms = []
    if text.count(",") > MAX_TERMS:
        raise BadRequest(f"invalid selector: more than {MAX_TERMS} terms")
    for part in sorted(_split(text)):
        if not part:
            continue
        found = _operator(part)
        if found is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        value = unescape(part[found.end() :])
        operator = NOT_EQUALS if found[0] == NOT_EQUALS else EQUALS
        terms.append(FieldTerm(part[: found.start()], operator, value))
    return FieldSelector(tuple(terms)) if terms else EVERYTHING


_parse_cached = lru_cache(maxsize=1024)(_parse)


def _split(text: str) -> list[str]:
    if "\\" not in text:
        return text.split(",")
    parts, position = [], 0
    while position <= len(text):
        found = _term(text, position)
        end = found.end() if found else len(text)
        parts.append(text[position:end])
        position = end + 1
    return parts


def escape(value: str) -> str:
    """Escape a value for use in a selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def unescape(value: str) -> str:
    """Unescape a value of a selector. Raises BadRequest."""
    if "\\" not in value and "=" not in value and "," not in value:
        return value
    out, characters = [], iter(value)
    for c in characters:
        if c == "\\":
            c = next(characters, "")
            if c not in ("\\", ",", "="):
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{c}")
        elif c in ",=":
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(c)}")
        out.append(c)
    return "".join(out)
