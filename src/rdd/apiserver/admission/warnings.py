# SPDX-License-Identifier: Apache-2.0
"""Limits of the warnings of webhooks.

Webhooks can send any number of warnings of any length, but headers are limited. As in Kubernetes,
all warnings of a request together may have 4,096 characters; beyond that each is truncated to 256,
and the rest is dropped when even that is too much. Texts with control characters are not sent.
"""

import re
from collections.abc import Iterable

MAX_TOTAL = 4096
MAX_ITEM = 256
_has_control = re.compile(r"[\x00-\x1f\x7f-\x9f]").search


def add(warnings: list[str], texts: Iterable[str]) -> None:
    """Append texts to the warnings of a request, within the limits."""
    for text in texts:
        if text and text not in warnings and not _has_control(text):
            warnings.append(text)
    if sum(map(len, warnings)) > MAX_TOTAL:
        warnings[:] = _truncated(warnings)


def _truncated(warnings: Iterable[str]) -> list[str]:
    kept: list[str] = []
    total = 0
    for text in warnings:
        if total >= MAX_TOTAL:
            break
        kept.append(text[:MAX_ITEM])
        total += min(len(text), MAX_ITEM)
    return kept
