# SPDX-License-Identifier: Apache-2.0
"""Refusing the writes of former owners.

A controller that runs in a process of its own sends `X-Rdd-Owner:
<controller>/<holder>/<epoch>` with every write. The Lease of the controller
says who the owner is; a write of anybody else, or of an earlier epoch, or of an
owner that was not heard of for longer than its lease is a Conflict. Writes
without the header are nobody's business here.

The check is the last step of admission: what follows is the commit, so however
long a webhook took, a write is judged by the owner at its end. Each attempt of a
write that has to be built again is judged again. The Leases are those of the
server's own cache; the commit fails if the one that was judged by has changed since,
also by a change that is only on its way to the disk: no write is committed behind
the one that ended its owner's epoch.
"""

from collections.abc import Callable

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.apiserver.admission.types import Attributes
from rdd.apiserver.http.request import Request
from rdd.apiserver.state.lister import CachedLister


class Fencing:
    """The admission plugin; it only validates."""

    def __init__(self, lister: CachedLister, clock: Callable[[], float]) -> None:
        self._lister = lister
        self._clock = clock

    def handles(self, attributes: Attributes, *, mutating: bool) -> bool:
        """Writes that say whose they are."""
        return not mutating and attributes.request.headers.get(names.OWNER_HEADER) is not None

    async def mutate(self, attributes: Attributes) -> None:
        """Nothing is changed."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuse a write that is not its owner's any more."""
        why = self._problem(attributes.request)
        if why:
            resource = attributes.resource
            error = errors.Conflict.of(resource.plural, resource.group, attributes.name, why)
            error.details = {
                **(error.details or {}),
                "causes": [{"reason": names.STALE_OWNER, "message": why}],
            }
            raise error

    def _problem(self, request: Request) -> str:
        """Why the owner of a request may not write; empty if it may, as its commit checks."""
        parts = request.headers[names.OWNER_HEADER].split("/")
        if len(parts) != 3 or not parts[2].isdecimal():
            return f"{names.OWNER_HEADER} must be <controller>/<holder>/<epoch>"
        controller, holder, epoch = parts
        lease = self._lister.get(
            "leases", names.SYSTEM_NAMESPACE, names.CONTROLLER_LEASE_PREFIX + controller
        )
        if lease is not None:
            request.condition = self._lister.unchanged("leases", lease)
        spec = (lease or {}).get("spec") or {}
        current = spec.get("holderIdentity") or ""
        count = spec.get("leaseTransitions") or 0
        who = f'controller "{controller}" is owned by '
        if not current:
            return who + f'nobody, not by "{holder}"'
        if (current, count) != (holder, int(epoch)):
            return who + f'"{current}" in epoch {count}, not by "{holder}" in epoch {epoch}'
        # The manager of this process has no heartbeat: it lives and dies with the server.
        if spec.get("leaseDurationSeconds") and self._has_ended(holder):
            return f'"{holder}" has not renewed its ownership of controller "{controller}" in time'
        return ""

    def _has_ended(self, holder: str) -> bool:
        heartbeat = self._lister.get(
            "leases", names.SYSTEM_NAMESPACE, names.MANAGER_LEASE_PREFIX + holder
        )
        spec: Object = (heartbeat or {}).get("spec") or {}
        renewed, duration_s = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        if not renewed or not duration_s:
            return True
        second, nano = timestamps.parse_micro(renewed)
        return bool(self._clock() >= second + nano / 1e9 + duration_s)
