# SPDX-License-Identifier: Apache-2.0
"""The responses of a watch as changes of whole revisions.

After a pause etcd sends up to a thousand revisions at once. They are requested in fragments,
because one message with all of them can be larger than this client accepts. A fragment may end
within a revision: the changes of that revision are held back until the next fragment.

Invariant: what `take` returns is never a part of a revision.
"""

from rdd.base.protowire import MalformedProtobuf
from rdd.grpc.errors import GrpcFailure
from rdd.grpc.messages import Message
from rdd.store.contract import Unavailable
from rdd.store.etcd import requests
from rdd.store.etcd.requests import EtcdEvent


class WatchCompacted(Exception):
    """The start of a watch, or a previous value, was compacted."""

    def __init__(self, compacted: int) -> None:
        super().__init__(f"history up to revision {compacted} was compacted")
        self.compacted = compacted


class WatchEvents:
    """The changes that one watch delivers."""

    def __init__(self) -> None:
        self._held: list[EtcdEvent] = []

    def take(self, message: bytes) -> list[EtcdEvent]:
        """Return the changes that a response completes, oldest first.

        Raises WatchCompacted, Unavailable.
        """
        try:
            events, is_fragment = requests.events_of(message)
            if not events:
                _check_cancelled(Message(message))
        except (MalformedProtobuf, GrpcFailure) as error:
            raise Unavailable(f"a watch response is malformed: {error}") from None
        if self._held:
            events, self._held = self._held + events, []
        if not is_fragment or not events:
            return events
        last = events[-1].value.modified
        cut = next(at for at, event in enumerate(events) if event.value.modified == last)
        self._held = events[cut:]
        return events[:cut]


def check_previous(events: list[EtcdEvent]) -> None:
    """Raise WatchCompacted if a previous value is missing: it was compacted before it was read."""
    for event in events:
        if event.previous is None and event.value.created != event.value.modified:
            raise WatchCompacted(event.value.modified)


def _check_cancelled(response: Message) -> None:
    if response.integer(4):  # canceled
        if compacted := response.integer(5):
            raise WatchCompacted(compacted)
        raise Unavailable(f"etcd cancelled a watch: {response.text(6) or 'no reason given'}")
