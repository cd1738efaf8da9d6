# SPDX-License-Identifier: Apache-2.0
"""Admission rules shared by the kinds of requests.

A request is immutable and runs once. Two unfinished requests for the same thing
would race in the engine, so admission rejects the second one; a create request
whose name is already in use is rejected, too.
"""

from collections.abc import Callable
from typing import Any

from rdd.api.types import Object
from rdd.controllers.containers.requests import is_finished
from rdd.engine.references import InvalidReference
from rdd.kinds.kind import Kind
from rdd.runtime import AdmissionRequest, Context, Denied

_NAME = "status.name"


def is_unchanged(request: AdmissionRequest[Any]) -> bool:
    """Return whether a write changes only metadata. Raises Denied if it changes the spec."""
    if request.old is None:
        return False
    if request.object.raw.get("spec") != request.old.raw.get("spec"):
        raise Denied("spec is immutable: create another request")
    return True


class UniqueNameRule:
    """Rejects a create request for a name that is in use or already requested."""

    def __init__(self, context: Context, kind: type[Kind], request_kind: type[Kind]) -> None:
        self._noun = kind.kind.lower()
        self._objects = context.cache.informer(kind)
        self._objects.add_index(_NAME, _by_name)
        self._request_kind = request_kind
        self._requests = context.cache.informer(request_kind)

    async def check(self, request: AdmissionRequest[Any]) -> None:
        """Raise Denied if the name is taken."""
        name = (request.object.raw.get("spec") or {}).get("name")
        if is_unchanged(request) or not name:
            return
        if self._objects.by_index(_NAME, name):
            raise Denied(f'{self._noun} name "{name}" is already in use')
        for other in self._requests.list():
            if other["spec"].get("name") == name and not is_finished(other):
                raise Denied(
                    f'{self._noun} name "{name}" is already requested by '
                    f'{self._request_kind.kind} "{other["metadata"]["name"]}"'
                )


class UniqueSubjectRule:
    """Rejects a request while another one of its kind has the same subject."""

    def __init__(
        self, context: Context, kind: type[Kind], subject: Callable[[Object], str]
    ) -> None:
        self._requests = context.cache.informer(kind)
        self._kind = kind
        self._subject = subject

    async def check(self, request: AdmissionRequest[Any]) -> None:
        """Raise Denied if an unfinished request has the same subject, or the subject is invalid."""
        if is_unchanged(request):
            return
        raw = request.object.raw
        metadata = {**raw["metadata"], "namespace": request.key.namespace}
        try:
            subject = self._subject({**raw, "metadata": metadata})
        except InvalidReference as error:
            raise Denied(f"spec.repoTag: {error}") from error
        for other in self._requests.list():
            if not is_finished(other) and self._subject(other) == subject:
                raise Denied(
                    f'"{subject}" is already requested by '
                    f'{self._kind.kind} "{other["metadata"]["name"]}"'
                )


def _by_name(obj: Object) -> tuple[str, ...]:
    name = (obj.get("status") or {}).get("name")
    return (name,) if name else ()
