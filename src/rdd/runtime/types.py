# SPDX-License-Identifier: Apache-2.0
"""Types of reconcilers: keys, results, errors, kinds.

A reconciler is level-triggered. It is called with the key of an object, never with an event:
only the current state matters. It reads, compares, does one step, writes the status, and
returns

    Result.done()               wait for the next change
    Result.requeue(after_s)     reconcile again after that time
    an exception                retry with exponential backoff
    TerminalError               do not retry; wait for the next change

It MUST be idempotent: it is called again after restarts, after a lost watch, and whenever a
watched object changes.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from rdd.api.types import Object
from rdd.client import ApiResource


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace of a cluster-scoped one is empty."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object) -> "ObjectKey":
        """Return the key of an object."""
        metadata = obj["metadata"]
        return cls(metadata.get("namespace") or "", metadata["name"])

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


QueueKey = Hashable
"""A key in the queue of a controller: an ObjectKey, or a named tuple of the controller's own."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a reconciliation without an error."""

    requeue_after_s: float | None = None
    """Reconcile again after this time; None: on the next change."""

    @classmethod
    def done(cls) -> "Result":
        """Wait for the next change."""
        return _DONE

    @classmethod
    def requeue(cls, after_s: float) -> "Result":
        """Reconcile again after a time; resets the backoff."""
        return cls(after_s)


_DONE = Result()


class TerminalError(Exception):
    """A failure that a retry cannot fix; the key waits for the next change."""


class Reconciler(Protocol):
    """Moves the current state towards the desired state of one object."""

    async def reconcile(self, key: Any) -> Result:
        """Do the next step for a key, whose object may no longer exist."""
        ...


@runtime_checkable
class Begins(Protocol):
    """A reconciler with a startup hook, to reset status that an earlier process has written."""

    async def begin(self) -> None:
        """Set conditions that can no longer be verified to Unknown.

        Called once, after the caches have synced, before any controller that starts together
        with this one reconciles a key, and before the manager counts as started. Errors of the
        server are logged; the controller starts in any case.
        """
        ...


@runtime_checkable
class Drains(Protocol):
    """A reconciler with teardown work at a graceful stop (virtual machines)."""

    async def drain(self) -> None:
        """Tear down, within the drain timeout of the manager.

        Called at a graceful stop, when no key is in progress; the process still owns the
        controller and can write. Not called when ownership is lost: the new owner manages what
        still runs.
        """
        ...


@runtime_checkable
class Runs(Protocol):
    """A reconciler with a background task: a stream, a timer."""

    async def run(self) -> None:
        """Run until cancelled: after `drain`, or at once if ownership is lost.

        It MUST stop everything that it starts. An exception stops the controller.
        """
        ...


class TypedKind(Protocol):
    """A class that describes a custom resource and creates typed views of its objects."""

    group: ClassVar[str]
    version: ClassVar[str]
    kind: ClassVar[str]
    plural: ClassVar[str]
    namespaced: ClassVar[bool]
    raw: Object

    @classmethod
    def of(cls, raw: Object) -> Self:
        """Return a view of a dict, which is not copied."""
        ...


K = TypeVar("K", bound=TypedKind)

AnyResource = ApiResource | type[TypedKind]
"""A resource, or the class of its objects."""


def resource_of(kind: AnyResource) -> ApiResource:
    """Return the resource of a typed kind; a resource is returned unchanged."""
    if isinstance(kind, ApiResource):
        return kind
    return ApiResource(kind.group, kind.version, kind.plural, kind.kind, namespaced=kind.namespaced)
