# SPDX-License-Identifier: Apache-2.0
"""Watchers that list, watch, and resume where their connection was cut.

They differ in their habits: some reconnect often, some read slowly, some request bookmarks. A
watcher whose place is compacted (410) or that reads too slowly lists again and begins another
segment of the record.
"""

import asyncio
import contextlib
import random
from pathlib import Path

from tests.crash.machine.recorder import Event, History, Segment, state_of
from tests.crash.machine.wire import Connection, Cut
from tests.crash.machine.workload import PATHS

GONE = 410


class Lost(Exception):
    """The place in the history is gone: list again."""


class Watcher:
    """One watcher of a kind; its name is `<kind>#<number>`."""

    def __init__(self, kind: str, number: int, seed: int, kubeconfig: Path, history: History):
        self.kind = kind
        self.name = f"{kind}#{number}"
        self.history = history
        self.choose = random.Random(f"{seed}/{self.name}")
        self._kubeconfig = kubeconfig
        self.segment: Segment | None = None
        self.reached = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                if self.segment is None:
                    self.segment = await self._list()
                await self._watch(self.segment)
            except Cut:
                await asyncio.sleep(0.05)
            except Lost:
                self.segment = None
            except RuntimeError as error:  # a status other than 200
                if error.args[0] == GONE:
                    self.segment = None
                await asyncio.sleep(0.05)

    async def until(self, revision: int) -> None:
        """Wait until everything up to a revision was received."""
        while self.segment is None or self.segment.end < revision:
            self.reached.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.reached.wait(), 0.5)

    async def _list(self) -> Segment:
        connection = Connection(self._kubeconfig)
        try:
            status, found = await connection.request("GET", PATHS[self.kind])
            if status != 200:
                raise Cut(str(status))
        finally:
            connection.close()
        revision = int(found["metadata"]["resourceVersion"])
        states = [state_of(self.kind, obj) for obj in found["items"]]
        segment = Segment(self.name, revision, {s.key: s for s in states}, end=revision)
        self.history.segments.append(segment)
        return segment

    async def _watch(self, segment: Segment) -> None:
        query = f"watch=1&resourceVersion={segment.end}"
        if self.choose.random() < 0.5:
            query += "&allowWatchBookmarks=true"
        if self.choose.random() < 0.5:
            query += f"&timeoutSeconds={self.choose.randrange(1, 4)}"
        delay_s = self.choose.choice((0.0, 0.0, 0.0, 0.02))
        lines = Connection(self._kubeconfig).lines(f"{PATHS[self.kind]}?{query}")
        async with contextlib.aclosing(lines):
            async for line in lines:
                self._take(segment, line)
                if delay_s:
                    await asyncio.sleep(delay_s)

    def _take(self, segment: Segment, line: dict[str, object]) -> None:
        obj = line["object"]
        assert isinstance(obj, dict)
        if line["type"] == "ERROR":
            if obj.get("code") == GONE:
                raise Lost
            raise Cut(str(obj))
        if line["type"] == "BOOKMARK":
            segment.reach(int(obj["metadata"]["resourceVersion"]))
        else:
            state = state_of(self.kind, obj)
            segment.events.append(Event(str(line["type"]), state))
            segment.reach(state.revision)
        self.reached.set()
