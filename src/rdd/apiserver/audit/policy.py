# SPDX-License-Identifier: Apache-2.0
"""The audit policy (`--audit-policy-file`): how much of which request is logged.

The rules are those of kube-apiserver: the first one that matches a request decides its level,
without a match nothing is logged. One rule is fixed and cannot be overridden: bodies of Secrets,
token requests and TokenReviews contain credentials and are never logged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from rdd.api import names
from rdd.apiserver.http.request import RequestInfo, User

API_VERSION = "audit.k8s.io/v1"
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_MEMBERS = frozenset({"apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"})
_RULE_MEMBERS = frozenset(
    {
        *("level", "users", "userGroups", "verbs", "resources", "namespaces"),
        *("nonResourceURLs", "omitStages", "omitManagedFields"),
    }
)
_RESOURCE_MEMBERS = frozenset({"group", "resources", "resourceNames"})
_CREDENTIALS = frozenset(
    {
        ("", "secrets", ""),
        ("", "serviceaccounts", "token"),
        (names.AUTHENTICATION_GROUP, "tokenreviews", ""),
    }
)


class Level(IntEnum):
    """How much of a request is logged."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        """The level as policies and events write it."""
        return _TEXTS[self]


_TEXTS = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_LEVELS = {text: level for level, text in _TEXTS.items()}


class PolicyError(Exception):
    """The policy file cannot be used."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is logged of one request."""

    level: Level
    omitted: frozenset[str] = frozenset()
    """The stages that are not logged."""
    omits_managed_fields: bool = False


NOTHING = Decision(Level.NONE)


class AuditPolicy:
    """The rules of a policy."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        """Check a policy. Raises PolicyError."""
        _check_members(source, _MEMBERS, "")
        if source.get("apiVersion") != API_VERSION or source.get("kind") != "Policy":
            raise PolicyError(f"it must be a Policy of {API_VERSION}")
        found = _items(source, "rules", "rules")
        if not found:
            raise PolicyError("it has no rules")
        omitted = _stages(source, "omitStages")
        omits = _truth(source, "omitManagedFields", "")
        self._rules = [_Rule(r, f"rules[{i}]", omitted, omits) for i, r in enumerate(found)]

    def decide(self, user: User, info: RequestInfo) -> Decision:
        """Return what is logged of a request."""
        for rule in self._rules:
            if rule.matches(user, info):
                decision = rule.decision
                if decision.level > Level.METADATA and _has_credentials(info):
                    return Decision(Level.METADATA, decision.omitted, decision.omits_managed_fields)
                return decision
        return NOTHING


def load_policy(path: str) -> AuditPolicy:
    """Return the policy of a file. Raises PolicyError."""
    import yaml

    try:
        source = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if not isinstance(source, dict):
            raise PolicyError("it is not an object")
        return AuditPolicy(source)
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, yaml.YAMLError) as error:
        why = f"it is not YAML: {str(error).splitlines()[0]}"
    except PolicyError as error:
        why = str(error)
    raise PolicyError(f'cannot use "{path}" (--audit-policy-file): {why}')


def _has_credentials(info: RequestInfo) -> bool:
    if (info.group, info.resource) == ("", "secrets"):
        return True
    return (info.group, info.resource, info.subresource) in _CREDENTIALS


class _Rule:
    def __init__(
        self, source: Any, path: str, omitted: frozenset[str], omits_managed_fields: bool
    ) -> None:
        if not isinstance(source, dict):
            raise PolicyError(f"{path} is not an object")
        _check_members(source, _RULE_MEMBERS, path)
        level = source.get("level")
        if level not in _LEVELS:
            raise PolicyError(f"{path}.level: unsupported value {level!r}; {', '.join(_LEVELS)}")
        self._users = frozenset(_texts(source, "users", path))
        self._groups = frozenset(_texts(source, "userGroups", path))
        self._verbs = frozenset(_texts(source, "verbs", path))
        self._namespaces = frozenset(_texts(source, "namespaces", path))
        self._urls = _texts(source, "nonResourceURLs", path)
        self._resources = [
            _resource(r, f"{path}.resources[{i}]")
            for i, r in enumerate(_items(source, "resources", f"{path}.resources"))
        ]
        if self._urls and (self._resources or self._namespaces):
            raise PolicyError(
                f"{path}: rules cannot apply to both regular resources and non-resource URLs"
            )
        for url in self._urls:
            if url != "*" and (not url.startswith("/") or "*" in url[:-1]):
                raise PolicyError(
                    f"{path}.nonResourceURLs: {url!r} must begin with / and have * only at the end"
                )
        omits = source.get("omitManagedFields")
        self.decision = Decision(
            _LEVELS[level],
            omitted | _stages(source, f"{path}.omitStages"),
            omits_managed_fields if omits is None else _truth(source, "omitManagedFields", path),
        )

    def matches(self, user: User, info: RequestInfo) -> bool:
        if self._users and user.name not in self._users:
            return False
        if self._groups and self._groups.isdisjoint(user.groups):
            return False
        if self._verbs and info.verb not in self._verbs:
            return False
        if self._namespaces or self._resources:
            return info.is_resource and self._matches_resource(info)
        if self._urls:
            return not info.is_resource and any(_matches_url(info.path, u) for u in self._urls)
        return True

    def _matches_resource(self, info: RequestInfo) -> bool:
        if self._namespaces and info.namespace not in self._namespaces:
            return False
        if not self._resources:
            return True
        combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        wanted = {combined, "*", f"{info.resource}/*"}
        if info.subresource:
            wanted.add(f"*/{info.subresource}")
        return any(
            group == info.group
            and (not resources or not wanted.isdisjoint(resources))
            and (not objects or info.name in objects)
            for group, resources, objects in self._resources
        )


def _matches_url(path: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def _resource(source: Any, path: str) -> tuple[str, frozenset[str], frozenset[str]]:
    if not isinstance(source, dict):
        raise PolicyError(f"{path} is not an object")
    _check_members(source, _RESOURCE_MEMBERS, path)
    group = source.get("group", "")
    if not isinstance(group, str):
        raise PolicyError(f"{path}.group is not a string")
    resources = frozenset(_texts(source, "resources", path))
    objects = frozenset(_texts(source, "resourceNames", path))
    if objects and not resources:
        raise PolicyError(f"{path}.resourceNames requires at least one resource")
    return group, resources, objects


def _check_members(source: Mapping[str, Any], known: frozenset[str], path: str) -> None:
    unknown = sorted(str(name) for name in source if name not in known)
    if unknown:
        raise PolicyError(f'unknown field "{f"{path}.{unknown[0]}" if path else unknown[0]}"')


def _items(source: Mapping[str, Any], name: str, path: str) -> list[Any]:
    found = source.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise PolicyError(f"{path} is not a list")
    return found


def _texts(source: Mapping[str, Any], name: str, path: str) -> list[str]:
    found = _items(source, name, f"{path}.{name}")
    if not all(isinstance(text, str) for text in found):
        raise PolicyError(f"{path}.{name} is not a list of strings")
    return found


def _truth(source: Mapping[str, Any], name: str, path: str) -> bool:
    found = source.get(name) or False
    if not isinstance(found, bool):
        raise PolicyError(f"{f'{path}.' if path else ''}{name} is not a boolean")
    return found


def _stages(source: Mapping[str, Any], path: str) -> frozenset[str]:
    found = _items(source, "omitStages", path)
    for stage in found:
        if stage not in STAGES:
            raise PolicyError(f"{path}: unsupported value {stage!r}; {', '.join(STAGES)}")
    return frozenset(found)
