# SPDX-License-Identifier: Apache-2.0
"""QMP, the control protocol of qemu: JSON lines on a unix socket.

One connection, one reader task. Responses are matched to commands by id; events go to their
waiters and to one callback. qemu serves one client at a time, and the next one as soon as that
has disconnected: this is how a new host agent connects.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError

_LINE_LIMIT_BYTES = 4 << 20  # responses about large machines are long lines
_JOB_POLL_S = 0.05  # a job that fails at once sends no event

QmpEvent = Mapping[str, Any]


class QmpError(HostError):
    """qemu rejected a command, or has ended."""


class Qmp:
    """A connection to a running qemu; `connect` opens one."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_event: Callable[[QmpEvent], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._responses: dict[int, asyncio.Future[Any]] = {}
        self._waiters: list[tuple[str, Callable[[QmpEvent], bool], asyncio.Future[QmpEvent]]] = []
        self._last_id = 0
        self._reader_task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()

    @classmethod
    async def connect(
        cls, path: Path, *, on_event: Callable[[QmpEvent], None] = lambda event: None
    ) -> "Qmp":
        """Connect and negotiate capabilities. Raises QmpError."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LINE_LIMIT_BYTES)
        except OSError as error:
            raise QmpError(f'failed to reach qemu at "{path}": {error.strerror}') from error
        client = cls(reader, writer, on_event)
        try:
            if not await reader.readline():  # the greeting
                raise QmpError(f'qemu closed the connection at "{path}"')
            client._reader_task = asyncio.create_task(client._read(), name=f"qmp {path}")
            await client.execute("qmp_capabilities")
        except OSError as error:  # qemu ended during the negotiation
            await client.close()
            raise QmpError(f'failed to reach qemu at "{path}": {error.strerror}') from error
        except BaseException:
            await client.close()
            raise
        return client

    async def execute(
        self, command: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float = 30
    ) -> Any:
        """Run a command; return its result. Raises QmpError."""
        self._last_id += 1
        number = self._last_id
        future = asyncio.get_running_loop().create_future()
        self._responses[number] = future
        message: dict[str, Any] = {"execute": command, "id": number}
        if arguments:
            message["arguments"] = dict(arguments)
        try:
            if self.closed.is_set():
                raise QmpError(f"qemu has ended; {command} was not sent")
            self._writer.write(json.dumps(message).encode() + b"\n")
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise QmpError(f"qemu did not respond to {command} within {timeout_s:g} s") from error
        finally:
            self._responses.pop(number, None)

    async def monitor(self, line: str) -> str:
        """Run a command of the human monitor; return its output."""
        return str(await self.execute("human-monitor-command", {"command-line": line}))

    async def wait_event(
        self,
        name: str,
        matches: Callable[[QmpEvent], bool] = lambda event: True,
        *,
        timeout_s: float,
    ) -> QmpEvent:
        """Return the next event of a name. Raises QmpError on timeout or when qemu ends."""
        future: asyncio.Future[QmpEvent] = asyncio.get_running_loop().create_future()
        entry = (name, matches, future)
        self._waiters.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise QmpError(f"qemu did not report {name} within {timeout_s:g} s") from error
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    async def run_job(
        self, command: str, arguments: Mapping[str, Any], *, timeout_s: float
    ) -> None:
        """Run a job to its end. Raises QmpError with the job's error."""
        name = f"rdd-{os.getpid()}-{self._last_id}"  # another agent may have left a job
        await self.execute(command, {**arguments, "job-id": name})
        try:
            async with asyncio.timeout(timeout_s):
                job = await self._job(name)
                while job["status"] != "concluded":
                    await asyncio.sleep(_JOB_POLL_S)
                    job = await self._job(name)
        except TimeoutError as error:
            raise QmpError(f"{command} took longer than {timeout_s:g} s") from error
        await self.execute("job-dismiss", {"id": name})
        if problem := job.get("error"):
            raise QmpError(f"{command} failed: {problem}")

    async def _job(self, name: str) -> Mapping[str, Any]:
        jobs = await self.execute("query-jobs")
        return next((job for job in jobs if job["id"] == name), {"status": "concluded"})

    async def close(self) -> None:
        """Close the connection; qemu runs on."""
        if self._reader_task is not None:
            self._reader_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader_task
        self._end()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._dispatch(message)
                elif future := self._responses.get(message.get("id", 0)):
                    if future.done():
                        continue
                    if "error" in message:
                        future.set_exception(QmpError(f"qemu: {message['error'].get('desc')}"))
                    else:
                        future.set_result(message.get("return"))
        except (OSError, ValueError, TypeError, AttributeError):
            pass  # disconnected, or no message of QMP: the connection is unusable
        finally:
            self._end()

    def _dispatch(self, event: QmpEvent) -> None:
        for entry in list(self._waiters):
            name, matches, future = entry
            if name == event["event"] and not future.done() and matches(event):
                future.set_result(event)
        self._on_event(event)

    def _end(self) -> None:
        self.closed.set()
        for future in [*self._responses.values(), *(entry[2] for entry in self._waiters)]:
            if not future.done():
                future.set_exception(QmpError("qemu has closed the connection"))
