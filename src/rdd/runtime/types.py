# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of reconciling: keys, results, errors, and what a kind is.

A reconciler is level-based. It is called with the key of an object, never with
an event: what happened does not matter, only what is. It reads, compares, does
one step, reports, and returns

    Result.done()               nothing to do until something changes
    Result.requeue(after_s)     look again after that time
    an exception                look again after a pause that doubles each time
    TerminalError               do not look again before something changes

and it MUST be idempotent: it is called again after restarts, after a lost
watch, and whenever anything that it watches changes.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from rdd.api.types import Object
from rdd.client import ApiResource


class ObjectKey(NamedTuple):
    """Which object; the namespace of cluster-scoped objects is empty."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object) -> "ObjectKey":
        """The key of an object."""
        metadata = obj["metadata"]
        return cls(metadata.get("namespace") or "", metadata["name"])

    def __str__(self) -> str:
        """`namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


QueueKey = Hashable
"""A key in the queue of a controller: an ObjectKey, or a named tuple of the controller's own."""


@dataclass(frozen=True, slots=True)
class Result:
    """What is to happen next to a key that was reconciled without an error."""

    requeue_after_s: float | None = None
    """Look again after this time, whatever happens; None: when something changes."""

    @classmethod
    def done(cls) -> "Result":
        """Nothing is left to do."""
        return _DONE

    @classmethod
    def requeue(cls, after_s: float) -> "Result":
        """Look again after a while; failures of before are forgotten."""
        return cls(after_s)


_DONE = Result()


class TerminalError(Exception):
    """A failure that trying again cannot cure; the key waits until something changes."""


class Reconciler(Protocol):
    """Brings the world closer to what one object asks for."""

    async def reconcile(self, key: Any) -> Result:
        """Do the next step for an object, which may no longer exist."""
        ...


@runtime_checkable
class Begins(Protocol):
    """A reconciler that has to take back what a process before it has said."""

    async def begin(self) -> None:
        """Say what is not known any more.

        Called once, when the caches have synced, before any controller that starts together
        with this one looks at a key, and before the manager calls itself started. Errors of
        the server are logged and end it, nothing else.
        """
        ...


@runtime_checkable
class Drains(Protocol):
    """A reconciler that has something to end before its process does (virtual machines)."""

    async def drain(self) -> None:
        """End it, within the budget of the manager.

        Called at a graceful stop, when no key is worked on any more; the
        controller is still owned and can write. Not called when ownership is
        lost: what runs then belongs to the new owner.
        """
        ...


@runtime_checkable
class Runs(Protocol):
    """A reconciler with work of its own beside its keys: a stream it follows, a timer."""

    async def run(self) -> None:
        """Work until cancelled, which happens after `drain`, or at once if ownership is lost.

        What it starts MUST end with it. An exception ends the controller.
        """
        ...


class TypedKind(Protocol):
    """A class that names a custom resource and makes typed views of its objects."""

    group: ClassVar[str]
    version: ClassVar[str]
    kind: ClassVar[str]
    plural: ClassVar[str]
    namespaced: ClassVar[bool]
    raw: Object

    @classmethod
    def of(cls, raw: Object) -> Self:
        """The view over a dict, which is not copied."""
        ...


K = TypeVar("K", bound=TypedKind)

AnyResource = ApiResource | type[TypedKind]
"""A resource, or the class of its objects."""


def resource_of(kind: AnyResource) -> ApiResource:
    """The resource of a typed kind; a resource is its own."""
    if isinstance(kind, ApiResource):
        return kind
    return ApiResource(kind.group, kind.version, kind.plural, kind.kind, namespaced=kind.namespaced)
