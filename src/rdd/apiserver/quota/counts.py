# SPDX-License-Identifier: Apache-2.0
"""The amounts of a ResourceQuota: which names count which objects, and how many exist.

Objects of every namespaced resource are counted as `count/<resource>.<group>`; the four kinds of
the core group that had a quota before that notation also as `configmaps`, `secrets`,
`resourcequotas` and `replicationcontrollers`. The names of pods, services and volumes are valid,
and since none exist here their usage is zero. Scopes select pods and volume claims only: a quota
with a scope limits no other objects.
"""

from collections.abc import Iterable, Mapping

from rdd.api.quantity import Quantity
from rdd.api.types import Object
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.state.cache import ResourceCache

_ALIASES = frozenset({"configmaps", "secrets", "resourcequotas", "replicationcontrollers"})
_NEVER_USED = frozenset(
    {
        *("pods", "services", "services.nodeports", "services.loadbalancers"),
        *("persistentvolumeclaims", "replicationcontrollers", "cpu", "memory"),
        *("ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    }
)
_ONE, _ZERO = Quantity.of(1), Quantity.of(0)

Amounts = dict[str, Quantity]


def parse(found: Mapping[str, str] | None) -> Amounts:
    """Return the amounts of a ResourceList; the kind has validated them."""
    return {name: Quantity.parse(text) for name, text in (found or {}).items()}


def text(amounts: Mapping[str, Quantity]) -> str:
    """Return amounts as error messages show them."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def is_counted(resource: Resource) -> bool:
    """Return whether quotas can limit a resource; as in Kubernetes, not core events."""
    return resource.namespaced and (resource.group, resource.plural) != ("", "events")


def names_of(resource: Resource) -> tuple[str, ...]:
    """Return the names that count the objects of a resource."""
    if resource.group:
        return (f"count/{resource.plural}.{resource.group}",)
    alias = (resource.plural,) if resource.plural in _ALIASES else ()
    return (f"count/{resource.plural}", *alias)


def has_scopes(quota: Object) -> bool:
    """Return whether a quota selects objects by scope, and so none of ours."""
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or (spec.get("scopeSelector") or {}).get("matchExpressions"))


class CountedResources:
    """The served resources by the names that count them."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._generation = -1
        self._by_name: dict[str, ResourceCache] = {}

    def find(self, name: str) -> ResourceCache | None:
        """Return the objects that a name counts, None if their resource is not served."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._by_name = {
                name: resource.cache
                for resource in self._registry.all()
                if is_counted(resource)
                for name in names_of(resource)
            }
        return self._by_name.get(name)

    def usage(
        self, quota: Object, namespace: str, pending: Iterable[tuple[ResourceCache, str]]
    ) -> Amounts:
        """Return the usage of every limited name whose objects are known.

        `pending` are admitted objects; those that are not stored yet are counted, too.
        """
        counts_nothing = has_scopes(quota)
        missing: dict[ResourceCache, int] = {}
        for created, name in pending:
            if created.get(namespace, name) is None:
                missing[created] = missing.get(created, 0) + 1
        found: Amounts = {}
        for name in (quota.get("spec") or {}).get("hard") or ():
            cache = self.find(name)
            if cache is not None:
                count = len(cache.spaces.get(namespace, ())) + missing.get(cache, 0)
                found[name] = _ZERO if counts_nothing else Quantity.of(count)
            elif name in _NEVER_USED or name.startswith(("requests.", "hugepages-")):
                found[name] = _ZERO
        return found


def requested(resource: Resource, limited: Mapping[str, Quantity]) -> Amounts:
    """Return what one more object adds to the limited names."""
    return {name: _ONE for name in names_of(resource) if name in limited}
