# SPDX-License-Identifier: Apache-2.0
"""The parameters of a policy: the objects that its bindings reference.

A binding names one object or selects several; the policy is evaluated once for each. Objects are
read from the server's cache, so a parameter written before the request is always found.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api.selectors import from_label_selector_object
from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.resources import Resource, ResourceRegistry


class ConfigurationError(Exception):
    """A policy or binding is unusable; failurePolicy decides the effect."""


def find_kind(registry: ResourceRegistry, kind: Mapping[str, Any]) -> Resource:
    """Return the resource of a paramKind."""
    group, _, version = kind.get("apiVersion", "").rpartition("/")
    name = kind.get("kind", "")
    found = registry.by_kind(group, name, version)
    if found is None:
        raise ConfigurationError(
            f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"
        )
    return found


async def collect(
    resource: Resource | None, ref: Mapping[str, Any] | None, namespace: str
) -> list[Object | None]:
    """Return the parameters of a binding for a write in a namespace.

    [None] means that policy or binding have no parameters, [] that no object was found and the
    policy does not apply.
    """
    if resource is None or ref is None:
        return [None]
    where = _namespace(resource, ref, namespace)
    name = ref.get("name")
    if name:
        entry = resource.cache.get(where, name)
        entries = [entry] if entry is not None else []
    else:
        selector = from_label_selector_object(ref.get("selector") or {})
        entries = [e for e in resource.cache.entries(where) if selector.matches(e.labels)]
    found: list[Object | None] = []
    for entry in await resource.convert_entries(entries):
        found.append(resource.object(entry))
        await offload.pause()
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError(
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    return found


def _namespace(resource: Resource, ref: Mapping[str, Any], namespace: str) -> str:
    own = ref.get("namespace") or ""
    if not resource.namespaced:
        if own:
            raise ConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        return ""
    if not own and not namespace:
        raise ConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return own or namespace
