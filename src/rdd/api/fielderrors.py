# SPDX-License-Identifier: Apache-2.0
"""Errors of one field, as Kubernetes words them.

A validation collects `FieldError`s; the request fails with all of them in one
Status (`api.errors.Invalid`), each as a cause with field, reason and message.
Field paths are text, `spec.ports[0].name`, built with `child`, `index` and
`key`, so that a path costs nothing until there is an error to report.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rdd.base import gotext, govalue

MAX_ERRORS = 1000
"""Errors that a Status lists: a small body must not make a large answer."""
OMIT = object()
"""Bad value that is not shown in the message."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem with one field.

    `kind` is a key of KINDS; `value` the bad value (OMIT to leave it out);
    `detail` the explanation after it.
    """

    kind: str
    field: str
    value: Any = OMIT
    detail: str = ""

    @property
    def reason(self) -> str:
        """Return the cause reason, e.g. FieldValueInvalid."""
        return KINDS[self.kind][1]

    @property
    def body(self) -> str:
        """Return the message without the field: `Invalid value: "x": must be …`."""
        text, _, shows_value = KINDS[self.kind]
        if shows_value and self.value is not OMIT:
            text = f"{text}: {govalue.value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


# kind → text, cause reason, whether the bad value is shown
KINDS: dict[str, tuple[str, str, bool]] = {
    "NotFound": ("Not found", "FieldValueNotFound", True),
    "Required": ("Required value", "FieldValueRequired", False),
    "Duplicate": ("Duplicate value", "FieldValueDuplicate", True),
    "Invalid": ("Invalid value", "FieldValueInvalid", True),
    "NotSupported": ("Unsupported value", "FieldValueNotSupported", True),
    "Forbidden": ("Forbidden", "FieldValueForbidden", False),
    "TooLong": ("Too long", "FieldValueTooLong", False),
    "TooMany": ("Too many", "FieldValueTooMany", True),
    "Internal": ("Internal error", "InternalError", False),
    "TypeInvalid": ("Invalid value", "FieldValueTypeInvalid", True),
}


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing required value."""
    return FieldError("Required", field, detail=detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error for a malformed value."""
    return FieldError("Invalid", field, value, detail)


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error for a value of the wrong JSON type."""
    return FieldError("TypeInvalid", field, value, detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value outside of a closed set, which it lists in the order given."""
    values = ", ".join(gotext.quote(v) for v in supported)
    return FieldError("NotSupported", field, value, f"supported values: {values}" if values else "")


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error for a duplicate of a unique value."""
    return FieldError("Duplicate", field, value)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error for a value that must not be set."""
    return FieldError("Forbidden", field, detail=detail)


def not_found(field: str, value: Any) -> FieldError:
    """Return the error for a dangling reference."""
    return FieldError("NotFound", field, value)


def too_long(field: str, max_length: int) -> FieldError:
    """Return the error for a text with too many bytes, without repeating it."""
    plural = "byte" if max_length == 1 else "bytes"
    return FieldError("TooLong", field, detail=f"may not be more than {max_length} {plural}")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    """Return the error for a list with too many items."""
    plural = "item" if maximum == 1 else "items"
    return FieldError("TooMany", field, actual, f"must have at most {maximum} {plural}")


def child(path: str, name: str) -> str:
    """Return the path of a member: `a` + `b` → `a.b`."""
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """Return the path of a list item: `a[0]`."""
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """Return the path of a map entry: `a[name]`."""
    return f"{path}[{name}]"


def bounded(errors: Sequence[FieldError]) -> Sequence[FieldError]:
    """Return at most MAX_ERRORS errors and one that stands for the omitted ones."""
    if len(errors) <= MAX_ERRORS:
        return errors
    last = FieldError("TooMany", errors[MAX_ERRORS].field, detail="more errors are not shown")
    return (*errors[:MAX_ERRORS], last)


def aggregate(messages: Sequence[str]) -> str:
    """Return several messages as one, as Kubernetes joins errors.

    Without repeats, `[a, b]` if several.
    """
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
