# SPDX-License-Identifier: Apache-2.0
"""Deletion of objects, and waiting until they are gone.

The server deletes objects without finalizers at once and marks the others. A watch
on each object waits until it is gone, or until its UID has changed: then another
object of the same name has replaced it.
"""

import time

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.kubectl.errors import FAILURES, Failure, KubectlError, raise_all
from rdd.kubectl.selection import Ref
from rdd.kubectl.session import Session

_DEFAULT_TIMEOUT_S = 7 * 24 * 3600  # as in kubectl


class BatchDeletion:
    """The deletions of one command."""

    def __init__(
        self,
        session: Session,
        *,
        cascade: str,
        grace_period: int = -1,
        dry_run: str = "none",
        ignores_missing: bool = False,
    ) -> None:
        self._session = session
        self._dry_run = dry_run
        self._ignores_missing = ignores_missing
        self._options: Object = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": cascade.capitalize(),
        }
        if grace_period >= 0:
            self._options["gracePeriodSeconds"] = grace_period
        if dry_run == "server":
            # The server reads options from the body if there is one, not from the query.
            self._options["dryRun"] = ["All"]
        self._waiting: list[tuple[Ref, str]] = []

    def delete_one(self, ref: Ref) -> bool:
        """Delete an object; returns False for a missing one if that is no error."""
        try:
            self._delete(ref)
        except ApiError as error:
            if error.reason == "NotFound" and self._ignores_missing:
                return False
            raise
        return True

    def _delete(self, ref: Ref) -> None:
        if self._dry_run == "client":
            return
        reply: Object = self._session.api.request("DELETE", ref.path, body=self._options)
        # The reply is the object, or a Status with its UID.
        uid = (reply.get("metadata") or {}).get("uid") or (reply.get("details") or {}).get("uid")
        self._waiting.append((ref, str(uid or "")))

    def wait(self, seconds: float = 0) -> None:
        """Return when all deleted objects are gone. Raises KubectlError at the deadline."""
        deadline = time.monotonic() + (seconds or _DEFAULT_TIMEOUT_S)
        errors: list[Failure] = []
        for ref, uid in self._waiting:
            try:
                wait_until_gone(self._session, ref, uid=uid, deadline=deadline)
            except FAILURES as error:
                errors.append(error)
        raise_all(errors)


def wait_until_gone(session: Session, ref: Ref, *, uid: str, deadline: float) -> None:
    """Return when no object of this name has the UID any more."""
    collection = ref._replace(name="").path
    query = {"fieldSelector": f"metadata.name={ref.name}"}
    while True:
        listed = session.api.get(collection, query)
        items = listed.get("items") or []
        if not items or (uid and items[0]["metadata"].get("uid") != uid):
            return
        uid = uid or items[0]["metadata"].get("uid", "")
        if time.monotonic() >= deadline:
            raise timed_out(ref)
        version = listed["metadata"].get("resourceVersion", "")
        watch = session.api.watch(
            collection, {**query, "resourceVersion": version}, deadline=deadline
        )
        try:
            if any(event["type"] == "DELETED" for event in watch):
                return
        except ApiError as error:
            if error.code != 410:  # the resource version has expired: list again
                raise


def timed_out(ref: Ref) -> KubectlError:
    """Return the error for a wait that ended at its deadline."""
    return KubectlError(f"timed out waiting for the condition on {ref.resource.plural}/{ref.name}")
