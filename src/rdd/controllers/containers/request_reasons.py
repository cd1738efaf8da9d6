# SPDX-License-Identifier: Apache-2.0
"""The reasons of the conditions Complete and Failed of requests.

Both conditions of a request always have the same reason and message.
"""

from typing import Final

from rdd.runtime import Condition
from rdd.runtime.conditions import ConditionStatus, Reason, ReasonTable

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"

_UNFINISHED = {
    "WaitingForEngine": "the engine is not connected; the request starts when it is",
    "InProgress": "the request is running",
}
_FAILURES = {
    "NotSupported": "the engine, or a missing scanner, does not allow the request",
    "NotFound": "the engine does not have the image, the namespace or the Image object",
    "Conflict": "the engine rejected the request because of its present state",
    "Invalid": "the engine rejected a value of the request",
    "EngineError": "the engine failed",
    "NotTagged": "the image has no tag to push",
    "BuildFailed": "a step of the build failed, or the context cannot be used",
    "ScannerFailed": "the scanner failed",
    "ResultTooLarge": "the report of the scanner exceeds the limit",
}


def _rows(
    reasons: dict[str, str], complete: ConditionStatus, failed: ConditionStatus
) -> list[Reason]:
    return [
        Reason(type_, status, reason, meaning=meaning)
        for reason, meaning in reasons.items()
        for type_, status in ((COMPLETE, complete), (FAILED, failed))
    ]


REASONS: Final = ReasonTable(
    *_rows(_UNFINISHED, "False", "False"),
    *_rows({"Completed": "the request succeeded"}, "True", "False"),
    *_rows(_FAILURES, "False", "True"),
)


def request_conditions(reason: str, message: str = "") -> tuple[Condition, Condition]:
    """Return both conditions for a reason."""
    return (
        REASONS.condition(COMPLETE, reason, message),
        REASONS.condition(FAILED, reason, message),
    )
