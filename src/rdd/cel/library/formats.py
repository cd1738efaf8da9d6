# SPDX-License-Identifier: Apache-2.0
"""Named formats: `format.dns1123Label().validate('x')`.

Validating gives nothing when the text is fine, else a list of explanations.
"""

import base64
import binascii
import datetime
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from rdd.api import name_validation
from rdd.cel import types as t
from rdd.cel.errors import EvaluationError
from rdd.cel.functions import REGEX, TRAVERSAL, Library
from rdd.cel.library.time import parse_timestamp
from rdd.cel.library.urls import url_problem
from rdd.cel.values import NONE, TYPES, Optional

LIBRARY = Library()


@dataclass(frozen=True, slots=True)
class Format:
    """A check of texts; `pattern_size` stands for its effort."""

    name: str
    explain: Callable[[str], list[str]]
    pattern_size: int


TYPES[Format] = t.FORMAT

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z", re.I)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_date(text: str) -> bool:
    try:
        return bool(re.match(r"\d{4}-\d\d-\d\d\Z", text, re.ASCII)) and bool(
            datetime.date.fromisoformat(text)
        )
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    try:
        parse_timestamp(text.upper())
    except EvaluationError:
        return False
    return True


def _explained(test: Callable[[str], object], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [problem]


def _url_errors(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


def _prefix(check: name_validation.NameErrors) -> Callable[[str], list[str]]:
    return functools.partial(check, is_prefix=True)


FORMATS = {
    name: Format(name, explain, size)
    for name, explain, size in (
        ("dns1123Label", name_validation.dns1123_label_errors, 30),
        ("dns1123Subdomain", name_validation.dns1123_subdomain_errors, 60),
        ("dns1035Label", name_validation.dns1035_label_errors, 30),
        ("qualifiedName", name_validation.qualified_name_errors, 60),
        ("dns1123LabelPrefix", _prefix(name_validation.dns1123_label_errors), 30),
        ("dns1123SubdomainPrefix", _prefix(name_validation.dns1123_subdomain_errors), 60),
        ("dns1035LabelPrefix", _prefix(name_validation.dns1035_label_errors), 30),
        ("labelValue", name_validation.label_value_errors, 40),
        ("uri", _url_errors, 1000),
        ("uuid", _explained(_UUID.match, "does not match the UUID format"), 70),
        ("byte", _explained(_is_base64, "invalid base64"), 80),
        ("date", _explained(_is_date, "invalid date"), 80),
        ("datetime", _explained(_is_datetime, "invalid datetime"), 80),
    )
}


def _validate(form: Format, text: str) -> Optional:
    errors = form.explain(text)
    return Optional(errors) if errors else NONE


def _cost(form: Format, text: str) -> int:
    return math.ceil((1 + len(text)) * TRAVERSAL) * math.ceil(form.pattern_size * REGEX)


def _named(name: str) -> Optional:
    form = FORMATS.get(name)
    return NONE if form is None else Optional(form)


def _constant(form: Format) -> Callable[[], Format]:
    return lambda: form


def _declare() -> None:
    errors = t.optional_of(t.list_of(t.STRING))
    LIBRARY.method(
        "validate", "format-validate", (t.FORMAT, t.STRING), errors, _validate, charge=_cost
    )
    LIBRARY.function("format.named", "format-named", (t.STRING,), t.optional_of(t.FORMAT), _named)
    for name, form in FORMATS.items():
        LIBRARY.function(f"format.{name}", f"format.{name}", (), t.FORMAT, _constant(form))


_declare()
