# SPDX-License-Identifier: Apache-2.0
"""The annotation in which client-side apply records the applied configuration."""

import json
from typing import Any

from rdd.api import names
from rdd.api.types import Object
from rdd.kubectl.session import compact


def annotated(obj: Object) -> Object:
    """Return the object with the annotation set."""
    plain = without_annotation(obj)
    metadata = plain["metadata"]
    annotations = {**metadata["annotations"], names.LAST_APPLIED: compact(plain) + "\n"}
    return {**plain, "metadata": {**metadata, "annotations": annotations}}


def without_annotation(obj: Object) -> Object:
    """Return the object as the annotation records it: without the annotation itself."""
    metadata: dict[str, Any] = dict(obj.get("metadata") or {})
    annotations: dict[str, Any] = dict(metadata.get("annotations") or {})
    annotations.pop(names.LAST_APPLIED, None)
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def last_applied(obj: Object) -> Object | None:
    """Return the last applied configuration; None if the object has none."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(names.LAST_APPLIED)
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
