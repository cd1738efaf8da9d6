# SPDX-License-Identifier: Apache-2.0
"""One virtual machine per name, whatever the namespace: the name is that of a directory.

A list of what exists is not enough: two creations that are admitted at the same time do not
see each other. So a creation that is about to be stored holds its name, in the memory of the
one process that admits LimaVMs. Taking a name and looking for holders happens without a
pause between them, hence exactly one of any number of creations gets through.

A hold cannot get stuck, since nothing is written anywhere. Who finds a name held waits until
the LimaVM of the holder is there, and is then refused for that reason; if it does not appear
within SETTLE_S after it was admitted, its creation has failed and the hold means nothing.

If all else fails (the controller moved to another process between two admissions), both
exist. The reconciler then gives the directory to the older one and tells the other why it
has none; see `rival_of`.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from rdd.client import Client
from rdd.kinds.limavm import LimaVM
from rdd.runtime import ObjectKey, resource_of

SETTLE_S = 5.0


@dataclass(frozen=True, slots=True)
class _Hold:
    key: ObjectKey
    since: float
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class NameHolds:
    """The names of LimaVMs that are being created."""

    def __init__(self) -> None:
        self._holds: dict[str, _Hold] = {}

    async def take(self, client: Client, key: ObjectKey) -> str | None:
        """Hold a name for a LimaVM that is about to be stored; otherwise the namespace that has it.

        The same key can take its name again: a creation that is repeated.
        """
        name = key.name
        while True:
            holder = await holder_of(client, name)
            if holder is not None:
                return holder
            # From here to the return nothing is awaited.
            hold = self._holds.get(name)
            now = asyncio.get_running_loop().time()
            left_s = 0.0 if hold is None else hold.since + SETTLE_S - now
            if hold is None or hold.key == key or left_s <= 0:
                self._holds[name] = _Hold(key, now)
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hold.is_over.wait(), left_s)

    def appeared(self, name: str) -> None:
        """The LimaVM exists: whoever asks is answered by the list."""
        hold = self._holds.pop(name, None)
        if hold is not None:
            hold.is_over.set()


async def holder_of(client: Client, name: str) -> str | None:
    """The namespace that has a LimaVM of this name, None if there is none."""
    found = await client.list(resource_of(LimaVM), field_selector=f"metadata.name={name}")
    return str(found.items[0]["metadata"]["namespace"]) if found.items else None


def taken(name: str, namespace: str) -> str:
    """Why a name cannot be used."""
    return (
        f'LimaVM name "{name}" is already used in namespace "{namespace}"; '
        "LimaVM names must be unique across all namespaces"
    )


def rival_of(vm: LimaVM, others: Iterable[LimaVM]) -> LimaVM | None:
    """The LimaVM of the same name that the directory belongs to, None if it is this one's.

    It belongs to the one that was created first.
    """
    metadata = vm.raw["metadata"]
    older = [
        other
        for other in others
        if other.raw["metadata"]["name"] == metadata["name"]
        and other.raw["metadata"]["uid"] != metadata["uid"]
        and _age(other) < _age(vm)
    ]
    return min(older, key=_age, default=None)


def _age(vm: LimaVM) -> tuple[str, str]:
    metadata = vm.raw["metadata"]
    return metadata["creationTimestamp"], metadata["uid"]
