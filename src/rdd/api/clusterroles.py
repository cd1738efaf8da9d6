# SPDX-License-Identifier: Apache-2.0
"""Aggregated ClusterRoles: the rules one gathers from others by label."""

from collections.abc import Iterable

from rdd.api.selectors import from_label_selector_object
from rdd.api.types import Object


def aggregated_rules(role: Object, cluster_roles: Iterable[Object]) -> list[Object] | None:
    """Return the rules an aggregated ClusterRole should have; None if it is not aggregated.

    The rules of all other cluster roles that one of its selectors matches,
    by selector and then by name, each rule once.
    """
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if selectors is None:
        return None
    own = role["metadata"]["name"]
    others = sorted(
        (r for r in cluster_roles if r["metadata"]["name"] != own),
        key=lambda r: str(r["metadata"]["name"]),
    )
    rules: list[Object] = []
    for selector in map(from_label_selector_object, selectors):
        for other in others:
            if selector.matches(other["metadata"].get("labels") or {}):
                for rule in other.get("rules") or ():
                    if rule not in rules:
                        rules.append(rule)
    return rules
