# SPDX-License-Identifier: Apache-2.0
"""What must hold after any faults: pure functions from a History to the violations in it.

- **order**: revisions of acknowledged writes are unique; a write that ended before another one of
  the same object began has the smaller revision; nothing lies between the revision that a write
  required and its own.
- **loss**: an acknowledged write is in the object until a later write, and an acknowledged delete
  ended the object; a refused write is seen nowhere.
- **watchers**: events ascend, begin and end objects properly, contain every acknowledged write of
  their span exactly once, and agree with all other watchers; at the end, what they add up to is
  what a list returns.

tests/crash/test_machine_checks.py plants a fault of each class, which must be found.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.crash.machine.recorder import Event, History, Outcome, Seen, Segment, Write

Final = dict[str, Seen]
"""The objects at the end, by key, of a list when nothing was written any more."""


def violations(history: History, final: Final) -> list[str]:
    """Return everything that must not have happened."""
    return [
        *check_order(history),
        *check_loss(history, final),
        *check_watchers(history, final),
    ]


# -- order


def check_order(history: History) -> Iterator[str]:
    """Check that each object has one linear order, which agrees with real time."""
    numbered = [write for write in _acknowledged(history) if write.revision]
    holder: dict[int, Write] = {}
    for write in numbered:
        other = holder.setdefault(write.revision, write)
        if other is not write:
            yield f"revision {write.revision} was given to {other} and {write}"
    for key, writes in _by_key(numbered).items():
        revisions = sorted({write.revision for write in writes} | _revisions(history, key))
        writes.sort(key=lambda write: write.revision)
        latest_start = 0.0
        for write in writes:
            if write.ended < latest_start:
                yield f"{write} ended before a write with a smaller revision began"
            latest_start = max(latest_start, write.began)
            between = [r for r in revisions if 0 < write.based_on < r < write.revision]
            if between:
                yield f"{write} required {write.based_on}, but there are {between} between"


def _revisions(history: History, key: str) -> set[int]:
    return {
        event.state.revision
        for segment in history.segments
        for event in segment.events
        if event.state.key == key
    }


# -- loss


def check_loss(history: History, final: Final) -> Iterator[str]:
    """Check that acknowledged writes had an effect, and refused ones had none."""
    refused = {w.mark: w for w in history.writes if w.outcome is Outcome.REFUSED}
    seen = {e.state.mark for s in history.segments for e in s.events}
    seen |= {state.mark for state in final.values()}
    for mark in sorted(seen & refused.keys()):
        yield f"{refused[mark]} was refused and happened"

    deletes = _by_key(w for w in history.writes if _may_end(w) and w.outcome is not Outcome.REFUSED)
    ended_uids = {e.state.uid for s in history.segments for e in s.events if e.type == "DELETED"}
    for key, writes in _by_key(_acknowledged(history)).items():
        numbered = [write for write in writes if write.revision and not _may_end(write)]
        if not numbered:
            continue
        last = max(numbered, key=lambda write: write.revision)
        found = final.get(key)
        later = _explained_after(history, key, last.revision)
        if found is not None and found.revision < last.revision:
            yield f"{last} was lost: the object has revision {found.revision}"
        elif found is not None and found.revision == last.revision:
            if found.mark != last.mark:
                yield f"{last} was lost: the object has the mark {found.mark!r}"
        elif found is not None and found.mark not in later:
            yield f"{last} was lost: {found} was written by nobody"
        elif found is None and not _end_is_explained(last, deletes.get(key, []), ended_uids):
            yield f"{last} was lost: there is no object and no delete"

    for write in _acknowledged(history):
        if write.verb == "delete" and write.uid:
            found = final.get(write.key)
            if found is not None and found.uid == write.uid and not found.is_deleting:
                yield f"{write} was lost: {found} exists"


def _may_end(write: Write) -> bool:
    return write.verb in ("delete", "release")


def _end_is_explained(last: Write, deletes: list[Write], ended_uids: set[str]) -> bool:
    # A delete cannot be undone: with finalizers, writes may follow it before the object ends.
    if any(delete.ended >= last.began or delete.uid == last.uid for delete in deletes):
        return True
    # Garbage collection: the owner has ended, which its own writes explain.
    return bool(last.owner) and last.owner in ended_uids


def _explained_after(history: History, key: str, revision: int) -> set[str]:
    """Return the marks that an object may have after a revision of it.

    The last acknowledged mark stays through writes without one: releases and controllers.
    """
    marks = {
        write.mark
        for write in history.writes
        if write.key == key
        and (
            write.outcome is Outcome.UNKNOWN
            or (write.outcome is Outcome.ACKNOWLEDGED and write.revision >= revision)
        )
    }
    return marks


# -- watchers


def check_watchers(history: History, final: Final) -> Iterator[str]:
    """Check every watcher by itself, against the writes, and against the others."""
    agreed: dict[tuple[str, int], Event] = {}
    written = [w for w in _acknowledged(history) if w.revision and not _may_end(w)]
    for segment in history.segments:
        yield from _check_segment(segment)
        positions = {(e.state.key, e.state.revision): e for e in segment.events}
        kinds = segment.watcher.split("#")[0]
        for write in written:
            if not write.key.startswith(f"{kinds}/"):
                continue
            if segment.start < write.revision <= segment.end:
                event = positions.get((write.key, write.revision))
                if event is None:
                    yield f"{segment.watcher} missed {write}"
                elif event.state.mark != write.mark:
                    yield f"{segment.watcher} saw {event.state.mark} instead of {write}"
        for position, event in positions.items():
            other = agreed.setdefault(position, event)
            if other != event:
                yield f"{segment.watcher} saw {event}, another watcher {other}"
    for segment in history.segments:
        kinds = segment.watcher.split("#")[0]
        own = {(e.state.key, e.state.revision) for e in segment.events}
        for key, revision in agreed:
            is_due = key.startswith(f"{kinds}/") and segment.start < revision <= segment.end
            if is_due and (key, revision) not in own:
                yield f"{segment.watcher} has a gap: {key} at {revision}, which another saw"
    for segment in _last_segments(history):
        kinds = segment.watcher.split("#")[0]
        expected = {key: s for key, s in final.items() if key.startswith(f"{kinds}/")}
        found = _fold(segment)
        for key in sorted(expected.keys() | found.keys()):
            if expected.get(key) != found.get(key):
                yield f"{segment.watcher} has {found.get(key)}, a list {expected.get(key)}"


def _check_segment(segment: Segment) -> Iterator[str]:
    live = dict(segment.initial)
    position = segment.start
    for event in segment.events:
        state = event.state
        if state.revision <= position:
            yield f"{segment.watcher} received {event} after revision {position}"
        position = max(position, state.revision)
        known = live.get(state.key)
        if (event.type == "ADDED") != (known is None):
            yield f"{segment.watcher} received {event}, but had {known}"
        elif known is not None and known.uid != state.uid:
            yield f"{segment.watcher} received {event} of another object than {known}"
        if event.type == "DELETED":
            live.pop(state.key, None)
        else:
            live[state.key] = state


def _fold(segment: Segment) -> dict[str, Seen]:
    live = dict(segment.initial)
    for event in segment.events:
        if event.type == "DELETED":
            live.pop(event.state.key, None)
        else:
            live[event.state.key] = event.state
    return live


def _last_segments(history: History) -> Iterable[Segment]:
    return {segment.watcher: segment for segment in history.segments}.values()


def _acknowledged(history: History) -> list[Write]:
    return [write for write in history.writes if write.outcome is Outcome.ACKNOWLEDGED]


def _by_key(writes: Iterable[Write]) -> dict[str, list[Write]]:
    found: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes:
        found[write.key].append(write)
    return found
