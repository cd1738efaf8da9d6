# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of a host agent: boot or adopt, wait, forward, end, with events."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rdd.host.errors import HostError
from rdd.host.processes import own_identity
from rdd.vm.agent import client as agentclient
from rdd.vm.agent.agent import HostAgent, StopRequest
from rdd.vm.agent.control import ControlSocket
from rdd.vm.agent.events import AgentLog, EventStream
from rdd.vm.agent.options import AgentOptions, UsageError, parse
from rdd.vm.agent.pid_file import PidFile
from rdd.vm.drivers.protocol import (
    Driver,
    Forward,
    ForwardError,
    Listener,
    Requirement,
    RequirementPhase,
    Unmet,
)
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.problem import ADDRESS_IN_USE, Problem
from rdd.vm.process_files import read_identity, write_pid_file
from rdd.vm.template.model import PortForward, Template


class Machine:
    """A fake driver with configurable behaviour."""

    name = "host"
    ssh_local_port = 60022

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.wanted: list[Requirement] = []
        self.runs_already = False
        self.start_error = ""
        self.stop_error = ""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.sets: asyncio.Queue[frozenset[Listener]] = asyncio.Queue()
        self.taken: set[str] = set()

    async def start(self) -> None:
        self.calls.append("start")
        if self.start_error:
            raise HostError(self.start_error)

    async def adopt(self) -> bool:
        self.calls.append("adopt")
        return self.runs_already

    def requirements(self) -> Sequence[Requirement]:
        return self.wanted

    async def wait_ended(self) -> str:
        return await self.ended

    async def stop(self, *, grace_s: float) -> None:
        self.calls.append("stop" if grace_s else "kill")
        if self.stop_error:
            raise HostError(self.stop_error)

    async def detach(self) -> None:
        self.calls.append("detach")

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        while True:
            yield await self.sets.get()

    async def open_forward(self, forward: Forward) -> None:
        if str(forward.host) in self.taken:
            raise ForwardError(f"{forward.host} is taken", reason=ADDRESS_IN_USE)
        self.calls.append(f"open {forward.host}")

    async def close_forward(self, forward: Forward) -> None:
        self.calls.append(f"close {forward.host}")


class World:
    """An agent in this process; its event stream is a pipe."""

    def __init__(self, template: Template | None = None) -> None:
        self.machine = Machine()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._rest = b""
        self.seen: list[dict[str, Any]] = []
        self.events = EventStream(descriptor=self._write)
        driver: Driver = self.machine
        log = AgentLog(descriptor=os.open(os.devnull, os.O_WRONLY))
        self.log_descriptor = log._descriptor
        self._directory = tempfile.TemporaryDirectory()
        directory = InstanceDirectory(Path(self._directory.name))
        self.agent = HostAgent(
            driver, template or Template(), directory, events=self.events, log=log
        )
        self.life: asyncio.Task[int] | None = None

    def begin(self) -> None:
        self.life = asyncio.create_task(self.agent.run())

    async def end(self) -> int:
        assert self.life is not None
        async with asyncio.timeout(120):
            return await self.life

    async def until(self, member: str) -> dict[str, Any]:
        """Wait for the next unread event with a member."""
        async with asyncio.timeout(120):
            while True:
                self._take()
                while self.seen:
                    status = self.seen.pop(0)
                    if member in status:
                        return status
                await asyncio.sleep(0.001)

    def _take(self) -> None:
        try:
            self._rest += os.read(self._read, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            event = json.loads(line)
            assert set(event) == {"time", "status"}
            self.seen.append(event["status"])

    def statuses(self) -> list[dict[str, Any]]:
        self._take()
        seen, self.seen = self.seen, []
        return [status for status in seen if "requirement" not in status]

    def close(self) -> None:
        for descriptor in (self._read, self._write, self.log_descriptor):
            os.close(descriptor)
        self._directory.cleanup()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    if made.life is not None and not made.life.done():
        made.agent.request(StopRequest.STOP)
        await made.life
    made.close()


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="rdd-ha-") as path:
        yield Path(path)


async def met() -> None:
    pass


async def unmet() -> None:
    raise Unmet("no answer")


async def test_events_are_in_limas_order(world: World) -> None:
    world.begin()
    await world.until("running")
    world.agent.request(StopRequest.STOP)
    assert await world.end() == 0
    assert world.machine.calls == ["adopt", "start", "stop"]
    assert world.statuses() == [{"exiting": True}]


def test_events_have_the_form_of_gos_encoder(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "events", os.O_CREAT | os.O_WRONLY)
    EventStream(descriptor=descriptor).exiting([Problem("no disk")])
    os.close(descriptor)
    line = (tmp_path / "events").read_text()
    assert line.startswith('{"time":"20')
    assert line.endswith('Z","status":{"exiting":true,"errors":["no disk"]}}\n')


async def test_events_are_queued_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 30
    has_room = asyncio.Event()
    write = os.write

    def limited(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, data[:room])
        room -= taken
        if room:
            has_room.set()
        return taken

    monkeypatch.setattr("rdd.vm.agent.events.os.write", limited)
    monkeypatch.setattr("rdd.vm.agent.events._RETRY_S", 0.001)
    descriptor = os.open(tmp_path / "events", os.O_CREAT | os.O_WRONLY)
    events = EventStream(descriptor=descriptor)
    events.booting(22)
    events.running()
    room = 1 << 20
    async with asyncio.timeout(120):
        await has_room.wait()
    os.close(descriptor)
    lines = (tmp_path / "events").read_text().splitlines()
    statuses = [json.loads(line)["status"] for line in lines]
    assert statuses == [{"sshLocalPort": 22}, {"running": True, "sshLocalPort": 22}]


async def test_ssh_port_is_in_the_first_event(world: World) -> None:
    world.begin()
    await asyncio.sleep(0)
    world._take()
    assert world.seen[0] == {"sshLocalPort": 60022}


async def test_running_driver_is_adopted_and_not_started(world: World) -> None:
    world.machine.runs_already = True
    world.begin()
    await world.until("running")
    assert world.machine.calls == ["adopt"]


async def test_failed_start_is_the_reason_of_the_exit(world: World) -> None:
    world.machine.start_error = "dockerd is not installed"
    world.begin()
    assert await world.end() == 1
    assert world.machine.calls == ["adopt", "start", "kill"]
    assert world.statuses()[-1] == {"exiting": True, "errors": ["dockerd is not installed"]}


async def test_unmet_essential_requirement_ends_the_agent(world: World) -> None:
    world.machine.wanted = [
        Requirement(
            RequirementPhase.ESSENTIAL,
            "ssh",
            unmet,
            hint="see the log",
            interval_s=0.001,
            timeout_s=0.02,
        )
    ]
    world.begin()
    assert await world.end() == 1
    (error,) = world.statuses()[-1]["errors"]
    assert error == 'the requirement "ssh" was not met within 0.02 s: no answer (see the log)'


async def test_other_unmet_requirements_degrade_the_machine(world: World) -> None:
    world.machine.wanted = [
        Requirement(RequirementPhase.ESSENTIAL, "ssh", met),
        Requirement(RequirementPhase.OPTIONAL, "probe", unmet, interval_s=0.001, timeout_s=0.01),
        Requirement(RequirementPhase.FINAL, "boot scripts", met),
    ]
    world.begin()
    reported = [(await world.until("requirement"))["requirement"] for _ in range(6)]
    assert [(item["phase"], item["state"]) for item in reported] == [
        ("essential", "waiting"),
        ("essential", "satisfied"),
        ("optional", "waiting"),
        ("optional", "failed"),
        ("final", "waiting"),
        ("final", "satisfied"),
    ]
    status = await world.until("running")
    assert status["degraded"] is True
    assert status["errors"] == ['the requirement "probe" was not met within 0.01 s: no answer']


async def test_requirement_is_retried_until_it_is_met(world: World) -> None:
    tries = 0

    async def third_time() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unmet("not yet")

    world.machine.wanted = [
        Requirement(RequirementPhase.ESSENTIAL, "ssh", third_time, interval_s=0.001)
    ]
    world.begin()
    await world.until("running")
    assert tries == 3


async def test_end_of_the_machine_ends_the_agent_with_the_reason(world: World) -> None:
    world.begin()
    await world.until("running")
    world.machine.ended.set_result("dockerd ended with signal 9")
    assert await world.end() == 1
    assert world.machine.calls[-1] == "kill"
    assert world.statuses()[-1]["errors"] == ["dockerd ended with signal 9"]


async def test_listeners_are_forwarded_until_the_agent_ends(world: World) -> None:
    world.begin()
    world.machine.sets.put_nowait(frozenset({Listener("tcp", "0.0.0.0", 80)}))
    status = await world.until("portForward")
    assert status["portForward"] == {
        "type": "forwarding",
        "protocol": "tcp",
        "guestAddr": "0.0.0.0:80",
        "hostAddr": "127.0.0.1:80",
    }
    world.agent.request(StopRequest.STOP)
    assert await world.end() == 0
    assert world.machine.calls == [
        "adopt",
        "start",
        "open 127.0.0.1:80",
        "close 127.0.0.1:80",
        "stop",
    ]


async def test_address_in_use_degrades_the_machine_until_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rdd.vm.forwarding.forwarder.FIRST_RETRY_S", 0.001)
    rule = PortForward(guest_ip="127.0.0.1", guest_socket="/run/a", host_socket="/tmp/a")
    world = World(Template(port_forwards=(rule,)))
    world.machine.taken.add("/tmp/a")
    world.begin()
    status = await world.until("running")
    assert (status["degraded"], status["errors"]) == (True, ["/tmp/a is taken"])
    assert status["problems"] == [
        {"message": "/tmp/a is taken", "reason": "AddressInUse", "hostAddr": "/tmp/a"}
    ]
    world.machine.taken.clear()
    status = await world.until("portForward")
    assert status["portForward"]["type"] == "forwarding"
    status = await world.until("running")
    assert status.keys() == {"running", "sshLocalPort"}
    world.agent.request(StopRequest.STOP)
    assert await world.end() == 0
    world.close()


async def test_stop_during_the_start_stops_the_driver(world: World) -> None:
    world.machine.wanted = [Requirement(RequirementPhase.ESSENTIAL, "ssh", unmet, interval_s=60)]
    world.begin()
    await world.until("requirement")
    world.agent.request(StopRequest.STOP)
    assert await world.end() == 0
    assert world.machine.calls == ["adopt", "start", "stop"]


async def test_failed_stop_is_reported(world: World) -> None:
    world.machine.stop_error = "process 7 still runs"
    world.begin()
    await world.until("running")
    world.agent.request(StopRequest.STOP)
    assert await world.end() == 1
    assert world.statuses()[-1] == {"exiting": True, "errors": ["process 7 still runs"]}


async def test_detach_responds_when_the_machine_can_be_adopted(world: World, short: Path) -> None:
    control = ControlSocket(short / "ha.sock", world.agent.routes())
    await control.open()
    world.begin()
    await world.until("running")
    status, body = await agentclient.request(short / "ha.sock", "/v1/let-go", method="POST")
    assert (status, json.loads(body)) == (200, {"letGo": True})
    assert await world.end() == 0
    assert world.machine.calls == ["adopt", "start", "detach"]
    await control.close()
    assert not (short / "ha.sock").exists()


async def test_info_and_status_are_served(world: World, short: Path) -> None:
    control = ControlSocket(short / "ha.sock", world.agent.routes())
    await control.open()
    world.begin()
    world.machine.sets.put_nowait(frozenset({Listener("tcp", "127.0.0.1", 80)}))
    await world.until("portForward")
    _, body = await agentclient.request(short / "ha.sock", "/v1/info")
    assert json.loads(body) == {"sshLocalPort": 60022, "driver": "host", "pid": os.getpid()}
    _, body = await agentclient.request(short / "ha.sock", "/v1/status")
    address = "127.0.0.1:80"
    assert json.loads(body) == {
        "running": True,
        "sshLocalPort": 60022,
        "driver": "host",
        "forwards": [
            {"type": "forwarding", "protocol": "tcp", "guestAddr": address, "hostAddr": address}
        ],
    }
    assert (await agentclient.request(short / "ha.sock", "/v1/nope"))[0] == 404
    assert (await agentclient.request(short / "ha.sock", "/v1/let-go"))[0] == 405
    await control.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\r\n\r\n", id="empty"),
        pytest.param(b"GET\r\n\r\n", id="no path"),
        pytest.param(b"x" * (1 << 17), id="endless"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="length"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", id="negative length"),
    ],
)
async def test_invalid_requests_are_ignored(world: World, short: Path, sent: bytes) -> None:
    control = ControlSocket(short / "ha.sock", world.agent.routes())
    await control.open()
    reader, writer = await asyncio.open_unix_connection(str(short / "ha.sock"))
    writer.write(sent)
    writer.write_eof()
    try:
        await reader.read()
    except ConnectionResetError:
        pass
    writer.close()
    assert (await agentclient.request(short / "ha.sock", "/v1/info"))[0] == 200
    await control.close()


def test_pid_file_has_limas_form_and_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "ha.pid"
    pidfile = PidFile.claim(path, tmp_path / "ha.lock")
    assert path.read_text() == f"{os.getpid()}\n"
    assert read_identity(tmp_path / "ha.identity") == own_identity()
    pidfile.release()
    assert list(tmp_path.iterdir()) == []


def test_rejects_a_second_concurrent_agent(tmp_path: Path) -> None:
    pidfile = PidFile.claim(tmp_path / "ha.pid", tmp_path / "ha.lock")
    for name in ("ha.pid", "other.pid"):  # independent of the pid file
        with pytest.raises(HostError, match="another host agent holds"):
            PidFile.claim(tmp_path / name, tmp_path / "ha.lock")
    pidfile.release()


def test_pid_file_of_a_live_process_is_respected(tmp_path: Path) -> None:
    (tmp_path / "ha.pid").write_text(f"{os.getppid()}\n")  # as Lima does: no identity
    with pytest.raises(HostError, match=f"belongs to process {os.getppid()}, which is alive"):
        PidFile.claim(tmp_path / "ha.pid", tmp_path / "ha.lock")


def test_pid_file_with_a_reused_pid_is_replaced(tmp_path: Path) -> None:
    mine = own_identity()
    write_pid_file(tmp_path / "ha.pid", type(mine)(os.getppid(), "long ago"))
    pidfile = PidFile.claim(tmp_path / "ha.pid", tmp_path / "ha.lock")
    assert (tmp_path / "ha.pid").read_text() == f"{os.getpid()}\n"
    pidfile.release()


def test_parses_limas_command_line() -> None:
    argv = ["--pidfile", "/a/ha.pid", "--socket=/a/ha.sock", "--debug", "--progress", "vm"]
    assert parse(argv, {"LIMA_HOME": "/l"}) == AgentOptions(
        name="vm",
        lima_home=Path("/l"),
        socket=Path("/a/ha.sock"),
        pidfile=Path("/a/ha.pid"),
        debug=True,
    )
    assert parse(["-p", "/p", "--socket", "/s", "vm"], {"LIMA_HOME": "/l"}).pidfile == Path("/p")


@pytest.mark.parametrize(
    ("argv", "environment", "message"),
    [
        pytest.param(["vm"], {"LIMA_HOME": "/l"}, "--socket is required", id="no socket"),
        pytest.param(["--socket", "/s"], {"LIMA_HOME": "/l"}, "exactly one instance", id="no name"),
        pytest.param(["--socket"], {"LIMA_HOME": "/l"}, "needs an argument", id="no value"),
        pytest.param(["--nope", "vm"], {"LIMA_HOME": "/l"}, "unknown flag: --nope", id="unknown"),
        pytest.param(["--run-gui", "vm"], {}, "--run-gui is not supported", id="window"),
        pytest.param(
            ["--nerdctl-archive=/x", "vm"], {}, "--nerdctl-archive is not supported", id="archive"
        ),
        pytest.param(["--socket", "/s", "vm"], {}, "LIMA_HOME is not set", id="no home"),
    ],
)
def test_rejects_invalid_command_lines(
    argv: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parse(argv, environment)
