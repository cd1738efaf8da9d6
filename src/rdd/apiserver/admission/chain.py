# SPDX-License-Identifier: Apache-2.0
"""The contract between the write pipeline and admission.

A `Chain` runs its plugins in order, first all mutating ones, then (after validation of the
object) all validating ones, as Kubernetes does. A plugin decides without awaiting whether it
handles a write, so that a server without webhooks has almost no overhead. `admission_plugins`
has their order.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rdd.api import managedfields_entries
from rdd.api.types import Object
from rdd.apiserver.admission.exemption import is_needed_to_start
from rdd.apiserver.http.request import Request, User
from rdd.apiserver.resources import Resource

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class AdmissionAttributes:
    """One write in the form for admission.

    `object` is the new object (None for DELETE), `old_object` the stored one (None for CREATE),
    both in the version of the request. A mutating plugin replaces or modifies `object`;
    `old_object` MUST NOT be modified.
    """

    __slots__ = (
        "dry_run",
        "is_exempt",
        "name",
        "namespace",
        "object",
        "old_object",
        "on_end",
        "operation",
        "options",
        "reinvocation",
        "request",
        "resource",
        "subresource",
        "user",
    )

    def __init__(
        self,
        operation: str,
        resource: Resource,
        request: Request,
        *,
        namespace: str,
        name: str,
        object_: Object | None,
        old_object: Object | None,
        options: dict[str, Any],
        dry_run: bool,
        subresource: str = "",
    ) -> None:
        self.operation = operation
        self.resource = resource
        self.request = request
        self.namespace = namespace
        self.name = name
        self.object = object_
        self.old_object = old_object
        self.options = options
        """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions object."""
        self.dry_run = dry_run
        self.subresource = subresource
        self.user: User = request.user
        self.reinvocation: dict[str, bytes] | None = None
        """Mutating policies to run again if the object differs from their result."""
        self.on_end: Callable[[], None] | None = None
        """Called when an admitted create has been stored or has failed."""
        self.is_exempt = False
        """Whether webhooks and policies of users do not see this write; set by the Chain."""


class Plugin(Protocol):
    """One step of admission."""

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        """Return whether this plugin handles the write in this phase. Cheap; never awaits."""
        ...

    async def mutate(self, attributes: AdmissionAttributes) -> None:
        """Modify attributes.object, or reject the write by raising an ApiError."""
        ...

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Reject the write by raising an ApiError."""
        ...


class Chain:
    """The plugins of a server, in order."""

    def __init__(self, plugins: Sequence[Plugin] = (), *, has_user_admission: bool = True) -> None:
        """`has_user_admission=False` exempts all writes from the webhooks and policies of users."""
        self.plugins = list(plugins)
        self._has_user_admission = has_user_admission

    async def mutate(self, attributes: AdmissionAttributes) -> bool:
        """Run the mutating phase; return whether a plugin ran (the object may have changed)."""
        has_run = False
        owners = None
        attributes.is_exempt = self._exempts(attributes)
        for plugin in self.plugins:
            if plugin.handles(attributes, mutating=True):
                if not has_run:
                    has_run = True
                    owners = _owners(attributes)
                await plugin.mutate(attributes)
        if has_run and attributes.object is not None:
            _keep_owners(attributes, owners)
        return has_run

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Run the validating phase."""
        attributes.is_exempt = self._exempts(attributes)
        for plugin in self.plugins:
            if plugin.handles(attributes, mutating=False):
                await plugin.validate(attributes)

    def _exempts(self, attributes: AdmissionAttributes) -> bool:
        if not self._has_user_admission:
            return True
        # Only requests of this process are trusted, so no client can claim the exemption.
        return attributes.request.is_trusted and is_needed_to_start(
            attributes.user,
            attributes.resource,
            namespace=attributes.namespace,
            name=attributes.name,
            subresource=attributes.subresource,
        )


def _owners(attributes: AdmissionAttributes) -> Any:
    meta = (attributes.object or {}).get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def _keep_owners(attributes: AdmissionAttributes, before: Any) -> None:
    """Restore field ownership that a plugin left in an invalid form."""
    after = _owners(attributes)
    if after == before or not after:
        return
    for position, entry in enumerate(after if isinstance(after, list) else [after]):
        why = managedfields_entries.problem(entry, position)
        if why is None:
            continue
        attributes.request.warnings.append(
            ".metadata.managedFields was in an invalid state after admission; this could be "
            "caused by an outdated mutating admission controller; please fix your requests: " + why
        )
        assert attributes.object is not None
        attributes.object["metadata"]["managedFields"] = before
        return
