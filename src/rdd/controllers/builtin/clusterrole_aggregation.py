# SPDX-License-Identifier: Apache-2.0
"""ClusterRole aggregation: roles that combine the rules of other roles by label.

Any change of a cluster role can affect any aggregated one. The controller caches all of them
(a few dozen) and recomputes the aggregated ones after every change, in a thread when they have
many rules; equal rules are not written.
"""

import asyncio
from collections.abc import Collection
from contextlib import aclosing

import orjson

from rdd.api.selectors import from_label_selector_object
from rdd.api.types import Object
from rdd.client import Client
from rdd.client.resources import CLUSTER_ROLES
from rdd.controllers.builtin.handled_queue import HandledQueue

FIELD_MANAGER = "clusterrole-aggregation-controller"
WORKERS = 5
_MANY_RULES = 1000
"""Rules that are combined on the event loop, in 2 ms; a role may have 20,000."""


class ClusterRoleAggregationController:
    """The controller `clusterrole-aggregation`."""

    name = "clusterrole-aggregation"

    def __init__(self, client: Client) -> None:
        self._client = client
        self.synced = asyncio.Event()
        self.queue = HandledQueue(self.name, self._sync, workers=WORKERS)
        self._roles: dict[str, Object] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name="rdd-clusterrole-aggregation-queue")
            await self._watch_roles()

    async def _watch_roles(self) -> None:
        listed: dict[str, Object] | None = None
        changes = self._client.list_and_watch(CLUSTER_ROLES)
        async with aclosing(changes):
            async for event in changes:
                if event.type == "RELIST":
                    listed = {}
                    continue
                if event.type == "SYNCED":
                    assert listed is not None
                    self._roles, listed = listed, None
                    self.synced.set()
                elif listed is not None:
                    listed[event.object["metadata"]["name"]] = _relevant(event.object)
                    continue
                elif event.type == "DELETED":
                    self._roles.pop(event.object["metadata"]["name"], None)
                else:
                    self._roles[event.object["metadata"]["name"]] = _relevant(event.object)
                for name, role in self._roles.items():
                    if role.get("aggregationRule"):
                        self.queue.add(name)

    async def _sync(self, name: str) -> None:
        role = self._roles.get(name)
        if role is None:
            return
        roles = list(self._roles.values())
        if sum(len(r["rules"] or ()) for r in roles) < _MANY_RULES:
            rules = _changed_rules(role, roles)
        else:
            rules = await asyncio.to_thread(_changed_rules, role, roles)
        if rules is None:
            return
        # The uid prevents the re-creation of a role that was deleted meanwhile.
        metadata = {"name": name, "uid": role["metadata"]["uid"]}
        await self._client.apply(
            CLUSTER_ROLES,
            {"metadata": metadata, "rules": rules},
            field_manager=FIELD_MANAGER,
            force=True,
        )


def _relevant(role: Object) -> Object:
    metadata = role["metadata"]
    return {
        "metadata": {member: metadata.get(member) for member in ("name", "uid", "labels")},
        "rules": role.get("rules"),
        "aggregationRule": role.get("aggregationRule"),
    }


def _changed_rules(role: Object, cluster_roles: Collection[Object]) -> list[Object] | None:
    """Return the rules of an aggregated ClusterRole if it has others."""
    rules = aggregated_rules(role, cluster_roles)
    return None if rules == (role.get("rules") or []) else rules


def aggregated_rules(role: Object, cluster_roles: Collection[Object]) -> list[Object] | None:
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
    rules: dict[bytes, Object] = {}
    for selector in map(from_label_selector_object, selectors):
        for other in others:
            if selector.matches(other["metadata"].get("labels") or {}):
                for rule in other.get("rules") or ():
                    rules.setdefault(orjson.dumps(rule, option=orjson.OPT_SORT_KEYS), rule)
    return list(rules.values())
