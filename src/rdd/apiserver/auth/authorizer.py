# SPDX-License-Identifier: Apache-2.0
"""The question authorisation answers, and the contract of who answers it."""

from dataclasses import dataclass
from typing import Any, Protocol

from rdd.apiserver.http.request import Request, User


@dataclass(frozen=True, slots=True)
class Attributes:
    """Everything an authoriser may look at."""

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
    def of(cls, request: Request) -> "Attributes":
        """The attributes of a request itself."""
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
    """The answer. `reason` says which rule allowed it, or why nothing did."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Authorizer(Protocol):
    """Decides from in-memory state, never waits."""

    def authorize(self, attributes: Attributes) -> Decision:
        """Whether the user may do this."""
        ...


class Lister(Protocol):
    """Read access to the current objects of built-in kinds, for authorisers and admission.

    Objects are shared and MUST NOT be changed.
    """

    def get(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """An object of a built-in resource, by the resource's store name (e.g. `roles`)."""
        ...

    def list(self, resource: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All objects of a resource (in one namespace, or everywhere)."""
        ...

    def revision(self, resource: str) -> int:
        """Changes whenever an object of the resource changes; for caches derived from it."""
        ...
