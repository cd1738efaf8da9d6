# SPDX-License-Identifier: Apache-2.0
"""QMP, the control protocol of qemu: JSON lines on a unix socket.

One connection, one reading task. Answers are matched to commands by id; events go to those
who wait for them and to one listener. qemu serves one client at a time and the next as soon as
that one is gone, which is how a new host agent gets in.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError

_LINE_LIMIT_BYTES = 4 << 20  # answers about large machines are long lines
_JOB_POLL_S = 0.05  # jobs tell of their end by events, but one that fails at once tells nobody

QmpEvent = Mapping[str, Any]


class QmpError(HostError):
    """qemu refused a command, or has gone."""


class Qmp:
    """A connection to a running qemu; `connect` makes one."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_event: Callable[[QmpEvent], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._waiting: list[tuple[str, Callable[[QmpEvent], bool], asyncio.Future[QmpEvent]]] = []
        self._last_id = 0
        self._reading: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()

    @classmethod
    async def connect(
        cls, path: Path, *, on_event: Callable[[QmpEvent], None] = lambda event: None
    ) -> "Qmp":
        """Connect and agree on the protocol. Raises QmpError, also when nobody listens."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LINE_LIMIT_BYTES)
        except OSError as error:
            raise QmpError(f'failed to reach qemu at "{path}": {error.strerror}') from error
        client = cls(reader, writer, on_event)
        try:
            if not await reader.readline():  # the greeting
                raise QmpError(f'qemu closed the connection at "{path}"')
            client._reading = asyncio.create_task(client._read(), name=f"qmp {path}")
            await client.execute("qmp_capabilities")
        except OSError as error:  # it ended as we came
            await client.close()
            raise QmpError(f'failed to reach qemu at "{path}": {error.strerror}') from error
        except BaseException:
            await client.close()
            raise
        return client

    async def execute(
        self, command: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float = 30
    ) -> Any:
        """Run a command; what qemu returns. Raises QmpError."""
        self._last_id += 1
        number = self._last_id
        future = asyncio.get_running_loop().create_future()
        self._answers[number] = future
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
            raise QmpError(f"qemu did not answer {command} within {timeout_s:g} s") from error
        finally:
            self._answers.pop(number, None)

    async def monitor(self, line: str) -> str:
        """Run a command of the human monitor; what it prints."""
        return str(await self.execute("human-monitor-command", {"command-line": line}))

    async def wait_event(
        self,
        name: str,
        matches: Callable[[QmpEvent], bool] = lambda event: True,
        *,
        timeout_s: float,
    ) -> QmpEvent:
        """The next event of a name. Raises QmpError after `timeout_s` or when qemu ends."""
        future: asyncio.Future[QmpEvent] = asyncio.get_running_loop().create_future()
        entry = (name, matches, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise QmpError(f"qemu did not report {name} within {timeout_s:g} s") from error
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    async def run_job(
        self, command: str, arguments: Mapping[str, Any], *, timeout_s: float
    ) -> None:
        """Run a command that works as a job, to its end. Raises QmpError with the job's error."""
        name = f"rdd-{self._last_id}"
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
        """Let the connection go; qemu keeps running."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
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
                elif future := self._answers.get(message.get("id", 0)):
                    if future.done():
                        continue
                    if "error" in message:
                        future.set_exception(QmpError(f"qemu: {message['error'].get('desc')}"))
                    else:
                        future.set_result(message.get("return"))
        except (OSError, ValueError):
            pass  # gone, or no longer making sense: the same to us
        finally:
            self._end()

    def _dispatch(self, event: QmpEvent) -> None:
        for entry in list(self._waiting):
            name, matches, future = entry
            if name == event["event"] and not future.done() and matches(event):
                future.set_result(event)
        self._on_event(event)

    def _end(self) -> None:
        self.closed.set()
        for future in [*self._answers.values(), *(entry[2] for entry in self._waiting)]:
            if not future.done():
                future.set_exception(QmpError("qemu has closed the connection"))
