# SPDX-License-Identifier: Apache-2.0
"""The view that controllers of one machine have of a shared store.

Lists and watches of the groups App, Lima and containers are restricted to the objects that carry
the machine's label; an object of another machine does not exist for the controllers. Writes name
the machine, and the server rejects those to objects of others
(`rdd.apiserver.admission.machine_binding`). So no controller has to compare machines itself.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace

import orjson

from rdd.api import errors, names
from rdd.client import Call, Reply, Transport
from rdd.client.transport import EncodedEvent, Keep

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class MachineTransport:
    """A transport restricted to the objects of one machine."""

    def __init__(self, inner: Transport, machine: str) -> None:
        self._inner = inner
        self._machine = machine
        self._selector = f"{names.MACHINE_LABEL}={machine}"
        self.saves_bytes = inner.saves_bytes
        self.watch_timeout_s = inner.watch_timeout_s
        self.wants_bookmarks = inner.wants_bookmarks
        self.streams_state = inner.streams_state

    async def request(self, call: Call) -> Reply:
        if call.method not in _READING:
            headers = {**call.headers, names.MACHINE_HEADER: self._machine}
            return await self._inner.request(replace(call, headers=headers))
        resource, name = _bound(call.path)
        if not resource:
            return await self._inner.request(call)
        if not name:
            return await self._inner.request(self._selected(call))
        reply = await self._inner.request(call)
        return self._own(reply, resource, name) if reply.status == 200 else reply

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        return self._inner.watch(self._selected(call) if _bound(call.path)[0] else call, keep)

    async def close(self) -> None:
        """Do nothing: the inner transport is shared."""

    def _selected(self, call: Call) -> Call:
        given = [text for text in call.query.get("labelSelector", ()) if text]
        selector = ",".join([*given, self._selector])
        return replace(call, query={**call.query, "labelSelector": [selector]})

    def _own(self, reply: Reply, resource: str, name: str) -> Reply:
        found = orjson.loads(reply.body)
        labels = (found.get("metadata") or {}).get("labels") or {}
        if labels.get(names.MACHINE_LABEL, self._machine) == self._machine:
            return reply
        group = str(found.get("apiVersion", "")).partition("/")[0]
        missing = errors.NotFound.of(resource, group, name)
        return Reply(404, orjson.dumps(missing.to_status()), reply.headers)


def _bound(path: str) -> tuple[str, str]:
    """Return resource and name in a path of a machine's group; the name is empty in a list."""
    parts = path.strip("/").split("/")
    if len(parts) < 4 or parts[0] != "apis":
        return "", ""
    group, rest = parts[1], parts[3:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    if group not in names.MACHINE_GROUPS and (group, rest[0]) not in names.MACHINE_RESOURCES:
        return "", ""
    return rest[0], rest[1] if len(rest) > 1 else ""
