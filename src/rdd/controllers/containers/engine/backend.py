# SPDX-License-Identifier: Apache-2.0
"""What the mirror needs of an engine, whichever it is.

Everything raises `EngineFailure`; an engine that cannot do something raises
EngineError with status 501.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from rdd.api.types import Object
from rdd.controllers.containers.engine.items import Mirror
from rdd.kinds.container import Action
from rdd.runtime import ObjectKey


@dataclass(frozen=True, slots=True)
class Description:
    """An item as the engine has it now."""

    mirrors: Sequence[Mirror] = ()
    """None if the engine does not have it."""
    also: Sequence[ObjectKey] = ()
    """Other items that should be looked at because of it."""


class Backend(Protocol):
    """One kind of engine, connected or not."""

    name: str
    """As `spec.containerEngine.name` of the App."""

    async def connect(self) -> None:
        """Find out whether the engine is there."""
        ...

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[ObjectKey]]:
        """The items that have changed since the block was entered, until the connection ends."""
        ...

    async def namespaces(self) -> Sequence[str]:
        """The engine's own namespaces."""
        ...

    async def everything(self) -> Sequence[ObjectKey]:
        """All items but namespaces."""
        ...

    async def describe(self, item: ObjectKey) -> Description:
        """One item as it is now."""
        ...

    async def remove(self, item: ObjectKey, mirror: Object) -> None:
        """Remove what a mirror stands for; NotFound if it is gone, Conflict if it is in use."""
        ...

    async def act(self, item: ObjectKey, action: Action) -> None:
        """Do something to a container."""
        ...

    async def state(self, item: ObjectKey) -> str:
        """A text that is another one after every change of a container's state."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
