# SPDX-License-Identifier: Apache-2.0
"""The interface between the mirror and an engine.

Every method raises `EngineFailure`; an engine that does not support an
operation raises EngineError with status 501.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from rdd.api.types import Object
from rdd.controllers.containers.engine.items import EngineItem, Mirror
from rdd.kinds.container import Action


@dataclass(frozen=True, slots=True)
class Description:
    """The present state of an item in the engine."""

    mirrors: Sequence[Mirror] = ()
    """Empty if the engine does not have the item."""
    related: Sequence[EngineItem] = ()
    """Other items that must be reconciled because of this one."""


class Backend(Protocol):
    """One type of engine, connected or not."""

    name: str
    """The value of `spec.containerEngine.name` of the App."""

    async def connect(self) -> None:
        """Check that the engine responds."""
        ...

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[EngineItem]]:
        """Yield the items that change after the block is entered, until the connection ends."""
        ...

    async def namespaces(self) -> Sequence[str]:
        """Return the engine's own namespaces."""
        ...

    async def everything(self) -> Sequence[EngineItem]:
        """Return all items except namespaces."""
        ...

    async def describe(self, item: EngineItem) -> Description:
        """Return the present state of an item."""
        ...

    async def remove(self, item: EngineItem, mirror: Object) -> None:
        """Remove the item of a mirror; EngineNotFound if it is gone, EngineConflict if in use."""
        ...

    async def act(self, item: EngineItem, action: Action) -> None:
        """Perform an action on a container."""
        ...

    async def state(self, item: EngineItem) -> str:
        """Return a text that differs after every state change of a container."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
