# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that delays, or swallows, what passes through it.

It stands between an API server and a member of etcd, one relay for each pair, because the kernels
of build machines have no netem. Blocking one direction is a one-way partition: bytes are accepted
and go nowhere, as with a packet filter that drops. When a blocked relay is opened its connections
end, since what was swallowed cannot be delivered in order any more.
"""

import asyncio
import contextlib


class Relay:
    """Forwards connections to one address."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.delay_s = 0.0
        self.blocks_requests = False
        self.blocks_responses = False

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def block(self, *, requests: bool = True, responses: bool = True) -> None:
        """Swallow one or both directions."""
        self.blocks_requests, self.blocks_responses = requests, responses

    def heal(self) -> None:
        """Forward again; connections that lost bytes end."""
        had_lost = self.blocks_requests or self.blocks_responses
        self.blocks_requests = self.blocks_responses = False
        self.delay_s = 0.0
        if had_lost:
            for writer in tuple(self._writers):
                writer.transport.abort()

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.blocks_requests:  # noqa: ASYNC110 # an attempt to connect gets no answer
            await asyncio.sleep(0.05)
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers.add(far_writer)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(reader, far_writer, is_request=True))
                tasks.create_task(self._pump(far_reader, writer, is_request=False))
        except* OSError:
            pass
        finally:
            self._writers.discard(far_writer)
            far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        """Forward until one side ends; a queue keeps the delay from limiting the rate."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                at, data = await queue.get()
                if (pause := at - loop.time()) > 0:
                    await asyncio.sleep(pause)
                if not data:
                    return
                writer.write(data)
                await writer.drain()

        sending = loop.create_task(send())
        try:
            while data := await reader.read(65536):
                if not (self.blocks_requests if is_request else self.blocks_responses):
                    queue.put_nowait((loop.time() + self.delay_s, data))
        finally:
            queue.put_nowait((loop.time(), b""))
            with contextlib.suppress(OSError):
                await sending
            writer.transport.abort()
