# SPDX-License-Identifier: Apache-2.0
"""Results of expressions for the world outside: as JSON, or as text."""

import base64
from typing import Any

from rdd.cel.errors import EvaluationError
from rdd.cel.library.conversions import to_string
from rdd.cel.library.time import format_duration, format_timestamp
from rdd.cel.values import NONE, Duration, Optional, Timestamp, type_of


def to_json(value: Any) -> Any:
    """Return a value as JSON: times as text, bytes as base64, absent values as null.

    Raises EvaluationError for what has no JSON form, such as types and addresses.
    """
    kind = type(value)
    if value is None or kind in (bool, str, float, int):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {_key(key): to_json(item) for key, item in value.items()}
    if kind is Timestamp:
        return format_timestamp(value)
    if kind is Duration:
        return format_duration(value)
    if kind is bytes:
        return base64.b64encode(value).decode()
    if isinstance(value, Optional):
        return None if value is NONE else to_json(value.value)
    raise EvaluationError(f"unsupported type for JSON: {type_of(value).name}")


def _key(key: Any) -> str:
    return key if isinstance(key, str) else to_string(key)


def to_text(value: Any) -> str | None:
    """Return the value of a message expression, or None when it is no text."""
    return value if type(value) is str else None
