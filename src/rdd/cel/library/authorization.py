# SPDX-License-Identifier: Apache-2.0
"""The `authorizer` of admission expressions: questions about what a user may do.

`authorizer.group('apps').resource('deployments').namespace('x').check('get')`
collects the attributes of a request and calls the callback that the server put
into the `Authorizer`. Checks are priced so that an expression can afford two.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rdd.cel import types as t
from rdd.cel.functions import TRAVERSAL, Library
from rdd.cel.values import TYPES

LIBRARY = Library()
_CHECK_COST = 350_000


@dataclass(frozen=True, slots=True)
class AuthorizationQuery:
    """A question for the server's authorizer. `user` is None for the user of the request."""

    verb: str = ""
    path: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None  # namespace and name to check instead


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer: whether it is allowed, why, and the error that kept it from being known."""

    allowed: bool
    reason: str = ""
    error: str = ""


Authorize = Callable[[AuthorizationQuery], Decision]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The value of the variable `authorizer`."""

    authorize: Authorize
    query: AuthorizationQuery = AuthorizationQuery()

    def resource_check(self, **attributes: str) -> "ResourceCheck":
        """Return a check of a resource with the given attributes: `authorizer.requestResource`."""
        return ResourceCheck(self.authorize, replace(self.query, **attributes))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A question about a path that is no resource."""

    authorize: Authorize
    query: AuthorizationQuery


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """A question about an API group, still without its resource."""

    authorize: Authorize
    query: AuthorizationQuery


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A question about a resource, still without its verb."""

    authorize: Authorize
    query: AuthorizationQuery


TYPES.update(
    {
        Authorizer: t.AUTHORIZER,
        PathCheck: t.PATH_CHECK,
        GroupCheck: t.GROUP_CHECK,
        ResourceCheck: t.RESOURCE_CHECK,
        Decision: t.DECISION,
    }
)


def _with(attribute: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def impl(check: ResourceCheck, value: str) -> ResourceCheck:
        return ResourceCheck(check.authorize, replace(check.query, **{attribute: value}))  # type: ignore[arg-type]

    return impl


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    query = replace(authorizer.query, service_account=(namespace, name))
    return Authorizer(authorizer.authorize, query)


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(authorizer.authorize, replace(authorizer.query, group=group))


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    return PathCheck(authorizer.authorize, replace(authorizer.query, path=path))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    return ResourceCheck(check.authorize, replace(check.query, resource=resource))


def _check(check: PathCheck | ResourceCheck, verb: str) -> Decision:
    return check.authorize(replace(check.query, verb=verb))


def _selector_cost(_: Any, selector: str) -> int:
    length = len(selector)
    return 10 + math.ceil(length * TRAVERSAL) + math.ceil(math.ceil(length * 0.5) * 50)


def _declare() -> None:
    method, text = LIBRARY.method, t.STRING
    method("path", "authorizer_path", (t.AUTHORIZER, text), t.PATH_CHECK, _path)
    method("group", "authorizer_group", (t.AUTHORIZER, text), t.GROUP_CHECK, _group)
    method(
        "serviceAccount", "authorizer_serviceaccount", (t.AUTHORIZER, text, text), t.AUTHORIZER,
        _service_account,
    )  # fmt: skip
    method("resource", "groupcheck_resource", (t.GROUP_CHECK, text), t.RESOURCE_CHECK, _resource)
    for name in ("subresource", "namespace", "name"):
        args = (t.RESOURCE_CHECK, text)
        method(name, f"resourcecheck_{name}", args, t.RESOURCE_CHECK, _with(name))
    for name, attribute in (
        ("fieldSelector", "field_selector"),
        ("labelSelector", "label_selector"),
    ):
        method(
            name,
            f"authorizer_{name.lower()}",
            (t.RESOURCE_CHECK, text),
            t.RESOURCE_CHECK,
            _with(attribute),
            charge=_selector_cost,
        )
    for kind, name in ((t.PATH_CHECK, "pathcheck"), (t.RESOURCE_CHECK, "resourcecheck")):
        method(
            "check", f"{name}_check", (kind, text), t.DECISION, _check,
            charge=lambda *_: _CHECK_COST,
        )  # fmt: skip
    method("allowed", "decision_allowed", (t.DECISION,), t.BOOL, lambda d: d.allowed)
    method("reason", "decision_reason", (t.DECISION,), text, lambda d: d.reason)
    method("errored", "decision_errored", (t.DECISION,), t.BOOL, lambda d: bool(d.error))
    method("error", "decision_error", (t.DECISION,), text, lambda d: d.error)


_declare()
