# SPDX-License-Identifier: Apache-2.0
"""Record events about objects (events.k8s.io/v1).

`event` never blocks and never fails. Repetitions are one event with a series: the first
repetition is written at once, further ones are counted and written every REFRESH_S, so a
reconciler that fails in a loop costs an occasional patch. Repetitions more than SERIES_S
apart are separate events.

Everything is bounded: the queue of unwritten events and the cache of series. An event that
does not fit, or that the server rejects, is dropped and counted; events explain, they never
carry state.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Literal

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client import ApiResource, Client, Unreachable
from rdd.runtime.metrics import Metrics

log = logging.getLogger("rdd.runtime")

EVENTS = ApiResource(names.EVENTS_GROUP, "v1", "events", "Event")

MAX_WAITING = 1000
MAX_SERIES = 1024
SERIES_S = 360.0
REFRESH_S = 30.0
MAX_NOTE_BYTES = 1024

_Identity = tuple[str, str, str, str, str]


class _Series:
    """A recorded event and the number of its repetitions."""

    __slots__ = ("count", "event", "is_created", "last_s", "written")

    def __init__(self, event: Object, now: float) -> None:
        self.event = event
        self.count = 1
        self.written = 0
        self.last_s = now
        self.is_created = False


class EventRecorder:
    """Records events of one controller; `run` writes them."""

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str = "",
        clock: Callable[[], float] = time.time,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._controller = f"{names.RDD_GROUP}/{controller}"
        self._instance = (instance or controller)[:128]
        self._clock = clock
        self._metrics = metrics or Metrics()
        self._series: OrderedDict[_Identity, _Series] = OrderedDict()
        self._waiting: deque[_Series] = deque()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._last_stamp = 0

    def event(
        self,
        obj: Object,
        type_: Literal["Normal", "Warning"],
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
        related: Object | None = None,
    ) -> None:
        """Record an event: a reason in CamelCase for programs, a note for users."""
        note = _shortened(note)
        now = self._clock()
        identity = (obj["metadata"].get("uid", ""), type_, reason, action, note)
        series = self._series.get(identity)
        if series is not None and now - series.last_s <= SERIES_S:
            series.count += 1
            series.last_s = now
            self._series.move_to_end(identity)
            if series.count == 2:
                self._enqueue(series)
            elif self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(REFRESH_S, self._enqueue_counted)
            return
        event = self._make(obj, type_, reason, note, action, now)
        if related is not None:
            event["related"] = _reference(related)
        series = self._series[identity] = _Series(event, now)
        self._series.move_to_end(identity)
        if len(self._series) > MAX_SERIES:
            self._series.popitem(last=False)
        self._enqueue(series)

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        try:
            while True:
                await self._wake.wait()
                await self.flush()
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def flush(self) -> None:
        """Write all queued events."""
        self._wake.clear()
        while self._waiting:
            series = self._waiting.popleft()
            try:
                await self._write(series)
            except (errors.ApiError, Unreachable) as error:
                self._metrics.events_dropped.add(self._controller)
                log.debug("event %s not recorded: %s", series.event["reason"], error)

    def _enqueue_counted(self) -> None:
        """Queue the series whose count has changed since it was written."""
        self._timer = None
        for series in self._series.values():
            if series.is_created and series.written < series.count:
                self._enqueue(series)

    def _enqueue(self, series: _Series) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._metrics.events_dropped.add(self._controller)
            return
        self._waiting.append(series)
        self._wake.set()

    async def _write(self, series: _Series) -> None:
        count = series.count
        if series.written >= count:
            return
        event = series.event
        metadata = event["metadata"]
        # A rejected event is not retried: the next one may be accepted.
        first, series.written = not series.is_created, count
        if count > 1:
            second = int(series.last_s)
            observed = timestamps.micro_text(second, int((series.last_s - second) * 1_000_000))
            event = {**event, "series": {"count": count, "lastObservedTime": observed}}
        if not first:
            try:
                patch = {"series": event["series"]}
                name, namespace = metadata["name"], metadata["namespace"]
                await self._client.patch(EVENTS, name, patch, namespace=namespace)
                return
            except errors.NotFound:
                pass  # events expire after an hour; the series continues in a new one
        series.is_created = True
        await self._client.create(EVENTS, event)

    def _make(
        self, obj: Object, type_: str, reason: str, note: str, action: str, now: float
    ) -> Object:
        metadata = obj["metadata"]
        second = int(now)
        micro = int((now - second) * 1_000_000)
        # The name of Kubernetes' recorder: the object and the time in nanoseconds, made unique.
        self._last_stamp = max(self._last_stamp + 1, second * 1_000_000_000 + micro * 1000)
        return {
            "metadata": {
                "name": f"{metadata['name'][:230]}.{self._last_stamp:x}",
                "namespace": metadata.get("namespace") or names.DEFAULT_NAMESPACE,
            },
            "eventTime": timestamps.micro_text(second, micro),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": _reference(obj),
            "note": note,
            "type": type_,
        }


def _reference(obj: Object) -> Object:
    metadata = obj["metadata"]
    found = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "name": metadata["name"]}
    for member in ("namespace", "uid", "resourceVersion"):
        found[member] = metadata.get(member)
    return {member: value for member, value in found.items() if value}


def _shortened(note: str) -> str:
    """Truncate to MAX_NOTE_BYTES of UTF-8, between two characters."""
    data = note.encode()
    if len(data) <= MAX_NOTE_BYTES:
        return note
    return data[: MAX_NOTE_BYTES - len("…".encode())].decode("utf-8", "ignore") + "…"
