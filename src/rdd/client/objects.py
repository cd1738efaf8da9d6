# SPDX-License-Identifier: Apache-2.0
"""Results of the async client: objects as dicts, lists of them, and events."""

from dataclasses import dataclass

import orjson

from rdd.api import names
from rdd.api.types import Object
from rdd.client.transport import EncodedEvent


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list, or one page of it. Items have kind and apiVersion, unlike the server's."""

    items: list[Object]
    resource_version: str
    continue_: str = ""


class Event:
    """One event of a watch; decoded on the first access to its object.

    `type` is ADDED, MODIFIED, DELETED or BOOKMARK. `list_and_watch` adds RELIST
    and SYNCED, whose object is empty.
    """

    __slots__ = ("_metadata_only", "_object", "encoded", "type")

    def __init__(
        self,
        type_: str,
        encoded: EncodedEvent | None,
        *,
        metadata_only: bool = False,
        object_: Object | None = None,
    ) -> None:
        self.type = type_
        self.encoded = encoded
        """The bytes of the server; None for listed objects."""
        self._metadata_only = metadata_only
        self._object = object_

    @property
    def object(self) -> Object:
        """The object (of a DELETED event: its last state)."""
        if self._object is None:
            assert self.encoded is not None
            self._object = orjson.loads(self.encoded.head + self.encoded.body)
            if self._metadata_only:
                self._object = partial(self._object)
        return self._object

    @property
    def ends_state(self) -> bool:
        """Whether it is the bookmark behind the existing objects."""
        if self.type != "BOOKMARK":
            return False
        return names.INITIAL_EVENTS_END in (self.object["metadata"].get("annotations") or ())

    def __repr__(self) -> str:
        meta = self.object.get("metadata") or {}
        return f"Event({self.type} {meta.get('namespace', '')}/{meta.get('name', '')})"


def partial(obj: Object) -> Object:
    """Reduce an object to a PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{names.META_GROUP}/v1",
        "metadata": obj["metadata"],
    }
