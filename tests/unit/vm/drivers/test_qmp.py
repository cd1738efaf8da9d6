# SPDX-License-Identifier: Apache-2.0
"""The QMP client against a fake server with configurable responses."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.vm.drivers.qemu.qmp import Qmp, QmpError

Message = dict[str, Any]


class Emulator:
    """A fake emulator."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commands: list[Message] = []
        self.answers: dict[str, Callable[[Message], Message | None]] = {}
        self.writer: asyncio.StreamWriter | None = None
        self.stopping = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.send({"QMP": {"version": {}, "capabilities": []}})
        while line := await reader.readline():
            command = json.loads(line)
            self.commands.append(command)
            reply = self.answers.get(command["execute"])
            answer = reply(command) if reply else {"return": {}}
            if answer is not None:
                self.send({**answer, "id": command["id"]})
        writer.close()

    def send(self, message: Message) -> None:
        assert self.writer is not None
        self.writer.write(json.dumps(message).encode() + b"\r\n")

    def event(self, name: str, **data: Any) -> None:
        self.send({"event": name, "data": data, "timestamp": {}})


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        made = Emulator(Path(folder) / "qmp.sock")
        server = await asyncio.start_unix_server(made.serve, made.path)
        yield made
        if made.writer is not None:
            made.writer.close()
        server.close()


async def test_responses_are_matched_to_commands(emulator: Emulator) -> None:
    emulator.answers["query-status"] = lambda command: {"return": {"status": "running"}}
    qmp = await Qmp.connect(emulator.path)
    assert emulator.commands[0]["execute"] == "qmp_capabilities"
    status, stopped = await asyncio.gather(qmp.execute("query-status"), qmp.execute("stop"))
    assert (status, stopped) == ({"status": "running"}, {})
    await qmp.close()


async def test_rejected_command_raises_its_description(emulator: Emulator) -> None:
    emulator.answers["eject"] = lambda command: {"error": {"class": "X", "desc": "no such drive"}}
    qmp = await Qmp.connect(emulator.path)
    with pytest.raises(QmpError, match="qemu: no such drive"):
        await qmp.execute("eject", {"device": "d"})
    assert emulator.commands[-1]["arguments"] == {"device": "d"}
    await qmp.close()


async def test_events_reach_callback_and_waiters(emulator: Emulator) -> None:
    seen: list[str] = []
    qmp = await Qmp.connect(emulator.path, on_event=lambda event: seen.append(event["event"]))
    waiting = asyncio.create_task(
        qmp.wait_event("SHUTDOWN", lambda event: event["data"]["guest"], timeout_s=120)
    )
    await asyncio.sleep(0)
    emulator.event("SHUTDOWN", guest=False)
    emulator.event("RESUME")
    emulator.event("SHUTDOWN", guest=True)
    assert (await waiting)["data"] == {"guest": True}
    assert seen == ["SHUTDOWN", "RESUME", "SHUTDOWN"]
    await qmp.close()


async def test_disconnect_ends_every_wait(emulator: Emulator) -> None:
    emulator.answers["stop"] = lambda command: emulator.stopping.set()
    qmp = await Qmp.connect(emulator.path)
    waiting = asyncio.create_task(qmp.execute("stop"))
    await emulator.stopping.wait()
    assert emulator.writer is not None
    emulator.writer.close()
    with pytest.raises(QmpError, match="closed the connection"):
        await waiting
    assert qmp.closed.is_set()
    with pytest.raises(QmpError, match="qemu has ended; cont was not sent"):
        await qmp.execute("cont")
    await qmp.close()


async def test_missing_response_times_out(emulator: Emulator) -> None:
    emulator.answers["stop"] = lambda command: None
    qmp = await Qmp.connect(emulator.path)
    with pytest.raises(QmpError, match=r"did not respond to stop within 0\.01 s"):
        await qmp.execute("stop", timeout_s=0.01)
    with pytest.raises(QmpError, match=r"did not report STOP within 0\.01 s"):
        await qmp.wait_event("STOP", timeout_s=0.01)
    await qmp.close()


async def test_job_runs_to_its_end_and_raises_its_error(emulator: Emulator) -> None:
    states = iter(["running", "running", "concluded"])

    def query(command: Message) -> Message:
        name = emulator.commands[1]["arguments"]["job-id"]
        job = {"id": name, "status": next(states), "error": "the disk is full"}
        return {"return": [job]}

    emulator.answers["query-jobs"] = query
    qmp = await Qmp.connect(emulator.path)
    with pytest.raises(QmpError, match="snapshot-save failed: the disk is full"):
        await qmp.run_job("snapshot-save", {"tag": "t"}, timeout_s=120)
    assert emulator.commands[-1]["execute"] == "job-dismiss"
    await qmp.close()


async def test_missing_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QmpError, match="failed to reach qemu at"):
        await Qmp.connect(tmp_path / "none")


async def test_disconnect_during_the_negotiation_is_an_error() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        path = Path(folder) / "qmp.sock"
        server = await asyncio.start_unix_server(end, path)
        with pytest.raises(QmpError, match="qemu"):
            await Qmp.connect(path)
        server.close()


@pytest.mark.parametrize(
    "line",
    [b'{"return": {}, "id": []}', b"[]", b"7", b'{"error": 1, "id": 1}', b"no JSON"],
    ids=["id", "list", "number", "error", "text"],
)
async def test_message_of_another_protocol_ends_the_connection(line: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"QMP": {}}\r\n')
        await reader.readline()
        writer.write(line + b"\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    with tempfile.TemporaryDirectory(prefix="rdd-qmp-") as directory:
        path = Path(directory) / "s"
        async with await asyncio.start_unix_server(answer, path):
            with pytest.raises(QmpError):
                await Qmp.connect(path)
