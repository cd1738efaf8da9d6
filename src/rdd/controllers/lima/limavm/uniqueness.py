# SPDX-License-Identifier: Apache-2.0
"""Unique names of virtual machines over all namespaces: the name is that of a directory.

A list of existing objects is not enough: two concurrent creations do not see each other.
So a creation that is about to be stored reserves its name, in the memory of the one process
that admits LimaVMs. Invariant: the check and the reservation run without a suspension
between them, hence exactly one of any number of creations succeeds.

A reservation cannot get stuck, since it is not stored. A creation that finds its name
reserved waits until the LimaVM of the reservation exists, and is then rejected; if the
LimaVM does not appear within SETTLE_S after its admission, its creation has failed and the
reservation expires.

As a fallback (the controller moved to another process between two admissions) both may
exist. The reconciler then assigns the directory to the older one and reports the conflict
on the other; see `older_namesake`.
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
class _Reservation:
    key: ObjectKey
    since: float
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class NameReservations:
    """The names of LimaVMs that are being created."""

    def __init__(self) -> None:
        self._reservations: dict[str, _Reservation] = {}

    async def reserve(self, client: Client, key: ObjectKey) -> str | None:
        """Reserve a name for a LimaVM, or return the namespace in which it is in use.

        The same key can reserve its name again, for a repeated creation.
        """
        name = key.name
        while True:
            namespace = await namespace_of(client, name)
            if namespace is not None:
                return namespace
            # Invariant: no await from here to the return.
            reservation = self._reservations.get(name)
            now = asyncio.get_running_loop().time()
            remaining_s = 0.0 if reservation is None else reservation.since + SETTLE_S - now
            if reservation is None or reservation.key == key or remaining_s <= 0:
                self._reservations[name] = _Reservation(key, now)
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reservation.is_over.wait(), remaining_s)

    def release(self, name: str) -> None:
        """End a reservation: the LimaVM exists and is in the list."""
        reservation = self._reservations.pop(name, None)
        if reservation is not None:
            reservation.is_over.set()


async def namespace_of(client: Client, name: str) -> str | None:
    """Return the namespace of the LimaVM of this name, or None."""
    found = await client.list(resource_of(LimaVM), field_selector=f"metadata.name={name}")
    return str(found.items[0]["metadata"]["namespace"]) if found.items else None


def name_in_use(name: str, namespace: str) -> str:
    """Return the error message for a name in use."""
    return (
        f'LimaVM name "{name}" is already used in namespace "{namespace}"; '
        "LimaVM names must be unique across all namespaces"
    )


def older_namesake(vm: LimaVM, others: Iterable[LimaVM]) -> LimaVM | None:
    """Return the oldest LimaVM of the same name if `vm` is not it: it owns the directory."""
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
