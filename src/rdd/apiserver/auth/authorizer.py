# SPDX-License-Identifier: Apache-2.0
"""The contract of authorisation: the attributes of a request and the decision."""

from dataclasses import dataclass
from typing import Any, Protocol

from rdd.apiserver.http.request import Request, User


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """The attributes that an authoriser may use."""

    user: User
    verb: str
    is_resource: bool = True
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @classmethod
    def of(cls, request: Request) -> "AuthorizationAttributes":
        """Return the attributes of a request."""
        info = request.info
        return cls(
            user=request.user,
            verb=info.verb,
            is_resource=info.is_resource,
            group=info.group,
            version=info.version,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            path=info.path,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of an authorisation; `reason` names the rule that allowed it."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Authorizer(Protocol):
    """Decides from in-memory state and never blocks."""

    def authorize(self, attributes: AuthorizationAttributes) -> Decision:
        """Decide whether the user may perform the request."""
        ...


class Lister(Protocol):
    """Read access to the cached objects of built-in kinds, for authorisers and admission.

    Objects are shared and MUST NOT be modified.
    """

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object of a built-in resource such as `roles`, or None."""
        ...

    def list(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a resource, in one namespace or in all."""
        ...

    def revision(self, resource: str) -> int:
        """Return a number that changes with every change of the resource; a cache key."""
        ...
