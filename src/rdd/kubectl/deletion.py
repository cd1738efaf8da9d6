# SPDX-License-Identifier: Apache-2.0
"""Deleting objects, and waiting until they are really gone.

The server deletes at once what has no finalizers; the rest it marks. Waiting is
a watch on each object until it is gone, or replaced by another of the same name
(told by its UID).
"""

import time

from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.kubectl.errors import FAILURES, Failure, KubectlError, raise_all
from rdd.kubectl.selection import Ref
from rdd.kubectl.session import Session

_FOREVER_S = 7 * 24 * 3600  # what kubectl waits when it is told nothing


class BatchDeletion:
    """One command's deletions."""

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
            # With a body the server takes its options from there, not from the query.
            self._options["dryRun"] = ["All"]
        self._waiting: list[tuple[Ref, str]] = []

    def delete_one(self, ref: Ref) -> bool:
        """Delete an object; False if it was not there and that is fine."""
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
        answer: Object = self._session.api.request("DELETE", ref.path, body=self._options)
        # The answer is the object, or a Status that has its UID.
        uid = (answer.get("metadata") or {}).get("uid") or (answer.get("details") or {}).get("uid")
        self._waiting.append((ref, str(uid or "")))

    def wait(self, seconds: float = 0) -> None:
        """Return when everything deleted is gone; raises KubectlError at the deadline."""
        deadline = time.monotonic() + (seconds or _FOREVER_S)
        errors: list[Failure] = []
        for ref, uid in self._waiting:
            try:
                wait_until_gone(self._session, ref, uid=uid, deadline=deadline)
            except FAILURES as error:
                errors.append(error)
        raise_all(errors)


def wait_until_gone(session: Session, ref: Ref, *, uid: str, deadline: float) -> None:
    """Return when an object is gone; one of the same name with another UID counts as gone."""
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
            if error.code != 410:  # too old to go on from: list again
                raise


def timed_out(ref: Ref) -> KubectlError:
    """The error at the end of a wait."""
    return KubectlError(f"timed out waiting for the condition on {ref.resource.plural}/{ref.name}")
