# SPDX-License-Identifier: Apache-2.0
"""Conditions of a namespace that is being deleted: progress and obstacles.

Types, reasons and messages are those of Kubernetes; `kubectl describe` shows them and scripts
match them. All five conditions are always present, and `False` is the good state of each.
"""

from collections import Counter
from dataclasses import dataclass, field

from rdd.client.resources import ApiResource
from rdd.runtime.conditions import FORWARDED, Condition, Reason, ReasonTable

DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE = "NamespaceDeletionContentFailure"
CONTENT_REMAINING = "NamespaceContentRemaining"
FINALIZERS_REMAINING = "NamespaceFinalizersRemaining"

REASONS = ReasonTable(
    Reason(DISCOVERY, "False", "ResourcesDiscovered", "All resources successfully discovered"),
    Reason(DISCOVERY, "True", "DiscoveryFailed", FORWARDED),
    Reason(PARSING, "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    Reason(
        CONTENT_FAILURE,
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    Reason(
        CONTENT_FAILURE,
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, …",
    ),
    Reason(CONTENT_REMAINING, "False", "ContentRemoved", "All content successfully removed"),
    Reason(CONTENT_REMAINING, "True", "SomeResourcesRemain", "Some resources are remaining: …"),
    Reason(
        FINALIZERS_REMAINING,
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
    Reason(
        FINALIZERS_REMAINING,
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: …",
    ),
)


@dataclass(slots=True)
class Findings:
    """The outcome of one attempt to empty a namespace."""

    discovery_error: str = ""
    failures: list[str] = field(default_factory=list)
    """Errors of deletions, one per resource."""
    remaining: dict[ApiResource, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)
    """Number of remaining objects for each finalizer."""

    def conditions(self) -> list[Condition]:
        """Return the five conditions that follow from the findings."""
        failures = ", ".join(sorted(self.failures))
        if failures:
            failures = f"{len(self.failures)} remaining: {failures}"
        remaining = ", ".join(
            sorted(
                f"{r.plural}.{r.group} has {n} resource instances"
                for r, n in self.remaining.items()
            )
        )
        finalizers = ", ".join(
            sorted(f"{name} in {n} resource instances" for name, n in self.finalizers.items())
        )
        return [
            _condition(DISCOVERY, "ResourcesDiscovered", "DiscoveryFailed", self.discovery_error),
            REASONS.condition(PARSING, "ParsedGroupVersions"),
            _condition(CONTENT_FAILURE, "ContentDeleted", "ContentDeletionFailed", failures),
            _condition(CONTENT_REMAINING, "ContentRemoved", "SomeResourcesRemain", remaining),
            _condition(
                FINALIZERS_REMAINING, "ContentHasNoFinalizers", "SomeFinalizersRemain", finalizers
            ),
        ]


def _condition(type_: str, good: str, bad: str, problem: str) -> Condition:
    return REASONS.condition(type_, bad if problem else good, problem)
