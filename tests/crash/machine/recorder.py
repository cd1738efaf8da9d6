# SPDX-License-Identifier: Apache-2.0
"""What clients and watchers of the crash machine have observed.

Every write carries a mark that no other write has, in an annotation. So an event or an object
names the write that caused it, and the checks (checks.py) need no knowledge of the server: they
compare what was acknowledged with what was seen.

The outcome of a write is `acknowledged` (a success was received), `refused` (an error that
promises that nothing was written) or `unknown` (the connection was cut, a timeout, a 5xx).
"""

import itertools
import math
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

STORY = 12
MARK = "crash.example.com/mark"


class Outcome(Enum):
    """What a client learned about its write."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Write:
    """A write of a client; `revision` and `uid` are those of the response."""

    verb: str
    key: str
    mark: str
    began: float = 0.0
    ended: float = math.inf
    outcome: Outcome = Outcome.UNKNOWN
    revision: int = 0
    uid: str = ""
    based_on: int = 0
    """The resourceVersion that the write required, or 0."""
    owner: str = ""
    """The uid of the owner of a created object."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A state of an object, in a list or an event."""

    key: str
    revision: int
    uid: str
    mark: str
    is_deleting: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a watch."""

    type: str
    state: Seen


@dataclass(slots=True)
class Segment:
    """What a watcher received from one list on, over any number of connections.

    It is complete from `start` to `end`: a watch that lost its place (410) begins another one.
    """

    watcher: str
    start: int
    initial: dict[str, Seen]
    events: list[Event] = field(default_factory=list)
    end: int = 0

    def reach(self, revision: int) -> None:
        """Note that everything up to a revision was received."""
        self.end = max(self.end, revision)


@dataclass(slots=True)
class History:
    """Everything that a round has observed."""

    writes: list[Write] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    _marks: "itertools.count[int]" = field(default_factory=itertools.count)

    def begin(self, verb: str, key: str, *, based_on: int = 0, owner: str = "") -> Write:
        """Record a write before its request is sent."""
        write = Write(verb, key, f"m{next(self._marks)}", time.monotonic())
        write.based_on, write.owner = based_on, owner
        self.writes.append(write)
        return write

    def finish(self, write: Write, outcome: Outcome, answer: Any = None) -> None:
        """Record the response of a write."""
        write.outcome = outcome
        if outcome is not Outcome.UNKNOWN:
            write.ended = time.monotonic()
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if outcome is Outcome.ACKNOWLEDGED and metadata:
            write.uid = metadata.get("uid", "")
            write.revision = int(metadata.get("resourceVersion") or 0)

    def acknowledged(self) -> int:
        """Return the number of acknowledged writes."""
        return sum(write.outcome is Outcome.ACKNOWLEDGED for write in self.writes)

    def events(self) -> int:
        """Return the number of received events."""
        return sum(len(segment.events) for segment in self.segments)


def story(history: History, key: str) -> list[str]:
    """Return the last writes and events of an object, for the report of a violation."""
    writes = [str(write) for write in history.writes if write.key == key]
    events = {
        event.state.revision: f"{event.type} {event.state}"
        for segment in history.segments
        for event in segment.events
        if event.state.key == key
    }
    return writes[-STORY:] + [events[revision] for revision in sorted(events)[-STORY:]]


def state_of(kind: str, obj: dict[str, Any]) -> Seen:
    """Return the recorded state of an object."""
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or [{}]
    return Seen(
        key=f"{kind}/{metadata['name']}",
        revision=int(metadata["resourceVersion"]),
        uid=metadata["uid"],
        mark=(metadata.get("annotations") or {}).get(MARK, ""),
        is_deleting="deletionTimestamp" in metadata,
        owner=owners[0].get("uid", ""),
    )
