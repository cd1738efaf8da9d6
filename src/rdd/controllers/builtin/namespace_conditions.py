# SPDX-License-Identifier: Apache-2.0
"""The conditions of a namespace being deleted: what has been done and what is in the way.

Types, reasons and messages are those of Kubernetes; `kubectl describe` and
scripts show and match them. All five conditions are always there, and `False`
is the good state of each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rdd.client.resources import ApiResource

DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE = "NamespaceDeletionContentFailure"
CONTENT_REMAINING = "NamespaceContentRemaining"
FINALIZERS_REMAINING = "NamespaceFinalizersRemaining"

_GOOD = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT_FAILURE: (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class Findings:
    """What an attempt to empty a namespace has found."""

    discovery_error: str = ""
    failures: list[str] = field(default_factory=list)
    """Why content could not be deleted, one text per resource."""
    remaining: dict[ApiResource, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)
    """How many of the remaining objects each finalizer holds."""

    def problems(self) -> dict[str, tuple[str, str]]:
        """Condition type → reason and message, for the conditions that are not good."""
        found: dict[str, tuple[str, str]] = {}
        if self.discovery_error:
            found[DISCOVERY] = ("DiscoveryFailed", self.discovery_error)
        if self.failures:
            found[CONTENT_FAILURE] = (
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {len(self.failures)} remaining: "
                + ", ".join(sorted(self.failures)),
            )
        if self.remaining:
            texts = [
                f"{r.plural}.{r.group} has {n} resource instances"
                for r, n in self.remaining.items()
            ]
            found[CONTENT_REMAINING] = (
                "SomeResourcesRemain",
                "Some resources are remaining: " + ", ".join(sorted(texts)),
            )
        if self.finalizers:
            texts = [f"{name} in {n} resource instances" for name, n in self.finalizers.items()]
            found[FINALIZERS_REMAINING] = (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: "
                + ", ".join(sorted(texts)),
            )
        return found


def updated(
    conditions: Sequence[dict[str, Any]], findings: Findings, *, now: str
) -> list[dict[str, Any]]:
    """The conditions after an attempt; equal to those before if nothing has changed."""
    result = [dict(c) for c in conditions]
    problems = findings.problems()
    for type_, good in _GOOD.items():
        reason, message = problems.get(type_, good)
        status = "True" if type_ in problems else "False"
        condition = next((c for c in result if c["type"] == type_), None)
        if condition is None:
            condition = {"type": type_}
            result.append(condition)
        if condition.get("status") != status:
            condition["status"] = status
            condition["lastTransitionTime"] = now
        condition["reason"], condition["message"] = reason, message
    return result
