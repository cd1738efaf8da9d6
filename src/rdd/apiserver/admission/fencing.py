# SPDX-License-Identifier: Apache-2.0
"""Fencing: rejects writes of former owners.

A controller in a separate process sends `X-Rdd-Owner: <controller>/<holder>/<epoch>` with every
write. The Lease of the controller records the owner. A write of another holder, of an earlier
epoch, or of an owner whose lease has expired is a Conflict. Writes without the header are not
checked.

The check is the last step of admission, directly before the commit, so the duration of webhooks
does not matter: the owner at the end decides. Every attempt of a retried write is checked again.
The check reads the Leases of the server's cache, and the commit is conditional on the Lease it
read, including changes that are not durable yet.

Invariant: no write is committed after the write that ended its owner's epoch.
"""

from collections.abc import Callable

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.apiserver.admission.chain import AdmissionAttributes
from rdd.apiserver.http.request import Request
from rdd.apiserver.state.lister import CachedLister

_EPOCH_DIGITS = 18


class Fencing:
    """The admission plugin; it only validates."""

    def __init__(self, lister: CachedLister, clock: Callable[[], float]) -> None:
        self._lister = lister
        self._clock = clock

    def handles(self, attributes: AdmissionAttributes, *, mutating: bool) -> bool:
        return not mutating and names.OWNER_HEADER in attributes.request.headers

    async def mutate(self, attributes: AdmissionAttributes) -> None: ...

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise Conflict unless the write is from the current owner."""
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
        """Return why the owner of a request may not write; empty if it may.

        Makes the commit conditional on the Lease.
        """
        parts = request.headers[names.OWNER_HEADER].split("/")
        if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > _EPOCH_DIGITS:
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
        prefix = f'controller "{controller}" '
        if not current:
            return prefix + f'has no owner, write by "{holder}" rejected'
        if (current, count) != (holder, int(epoch)):
            return (
                prefix
                + f'is owned by "{current}" in epoch {count}, not by "{holder}" in epoch {epoch}'
            )
        # The manager in this process has no heartbeat: its lifetime is that of the server.
        if spec.get("leaseDurationSeconds") and self._has_expired(holder):
            return f'"{holder}" has not renewed its ownership of controller "{controller}" in time'
        return ""

    def _has_expired(self, holder: str) -> bool:
        heartbeat = self._lister.get(
            "leases", names.SYSTEM_NAMESPACE, names.MANAGER_LEASE_PREFIX + holder
        )
        spec: Object = (heartbeat or {}).get("spec") or {}
        renewed, duration_s = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        if not renewed or not duration_s:
            return True
        second, nano = timestamps.parse_micro(renewed)
        return bool(self._clock() >= second + nano / 1e9 + duration_s)
