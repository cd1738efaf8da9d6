# SPDX-License-Identifier: Apache-2.0
"""An idle guest is suspended: its emulator ends, clients wake it, and no crash loses it."""

import asyncio
import os

from tests.e2e.machine.qemu_world import SMALL, World, eventually

from rdd.controllers.lima.limavm import reasons
from rdd.host.processes import Identity, is_alive
from rdd.vm.drivers.qemu import disks, files, suspension
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.idle.report import IdleReport
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.instance_dir import InstanceDirectory

ROUNDS = 30 if os.environ.get("RDD_SOAK") == "1" else 2
QUICK = IdleSettings(action="suspend", after_s=1)
PORT = 8096
URL = f"127.0.0.1:{PORT}"
SERVE = f"echo hi >/tmp/index.html; httpd -p {URL} -h /tmp"


def idle(small: World) -> IdleReport:
    return small.machines.phase("vm").idle or IdleReport()


def is_forwarded(small: World) -> bool:
    return any(
        one.type == "forwarding" and one.host_address == URL
        for one in small.machines.phase("vm").forwards
    )


async def until_suspended(small: World) -> None:
    try:
        await eventually(lambda: idle(small).is_suspended)
    except AssertionError:
        raise AssertionError(f"not suspended: {idle(small)}\n{small.logs('vm')}") from None


async def get() -> bytes:
    async with asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        try:
            writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
            return await reader.read()
        finally:
            writer.close()


def emulator(directory: InstanceDirectory) -> Identity:
    process = directory.driver_process()
    assert process is not None
    return process


async def test_idle_guest_is_suspended_and_woken_by_its_clients(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    await small.shell("vm", "sh", "-c", SERVE)
    await eventually(lambda: is_forwarded(small))
    await small.machines.set_idle("vm", QUICK)

    for _ in range(ROUNDS):
        process = emulator(directory)
        await until_suspended(small)
        assert not is_alive(process)
        assert emulator(directory) == directory.agent()
        condition = reasons.paused(idle(small), "")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "Suspended")
        answers = await asyncio.gather(get(), get())
        assert all(b"hi" in answer for answer in answers)
        assert idle(small).cause == f"a client of {URL}"

    # A client that is connected would lose its connection: the guest is paused instead.
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    await eventually(lambda: "1 connection(s) of clients are open" in idle(small).problem)
    assert idle(small).paused_since
    assert not idle(small).is_suspended
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(60):
        assert b"hi" in await reader.read()
    writer.close()
    await until_suspended(small)
    assert not idle(small).problem

    # A client that arrives while the memory is being saved is held, and answered.
    assert b"hi" in await get()
    await eventually(lambda: bool(idle(small).paused_since))
    assert b"hi" in await get()

    await small.stop("vm")
    assert not directory.paused.exists()
    assert not (directory.path / files.SUSPENDED).exists()


async def test_suspended_guest_survives_the_end_of_agent_and_daemon(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    await small.shell("vm", "sh", "-c", SERVE)
    await eventually(lambda: is_forwarded(small))
    await small.machines.set_idle("vm", QUICK)

    # The agent is killed: the next start resumes the memory, with what ran in the guest.
    await until_suspended(small)
    await small.kill(directory.agent())
    small.new_daemon()
    assert not await small.machines.adopt("vm")
    await small.start("vm")
    await eventually(lambda: is_forwarded(small))
    assert b"hi" in await get()

    # Another daemon replaces the agent.
    await until_suspended(small)
    await small.machines.close()
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    await eventually(lambda: is_forwarded(small))
    assert b"hi" in await get()

    # The agent is killed after the memory was saved, and before the emulator has ended: the guest
    # runs on, and the saved memory must not be loaded any more.
    await small.machines.set_idle("vm", IdleSettings())
    await eventually(lambda: not idle(small).action)
    await small.kill(directory.agent())
    qmp = await Qmp.connect(directory.path / files.QMP_SOCKET)
    kind = suspension.MachineKind("", "", "", "", "")
    await suspension.save(qmp, directory.path, suspension.Suspended(kind, "id"))
    await qmp.close()
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    assert not (directory.path / files.SUSPENDED).exists()
    assert not (await disks.inspect(directory.path / files.DISK)).snapshots
    await eventually(lambda: is_forwarded(small))
    assert b"hi" in await get()

    # The emulator of a guest that runs again is killed: its end is noticed.
    await small.machines.set_idle("vm", QUICK)
    await until_suspended(small)
    await small.machines.wake("vm")
    await small.machines.set_idle("vm", IdleSettings())
    await small.kill(emulator(directory))
    seen = await small.until("vm", lambda seen: seen.agent_pid == 0)
    assert "qemu was killed by SIGKILL" in seen.reason


async def test_guest_with_mounts_that_cannot_be_saved_is_paused(small: World) -> None:
    shared = small.user_home / "shared"
    shared.mkdir()
    mounts = f"mountType: 9p\nmounts:\n- location: {shared}\n"
    await small.create("vm", SMALL + mounts)
    await small.start("vm")
    await small.machines.set_idle("vm", QUICK)
    await eventually(lambda: bool(idle(small).paused_since))
    assert not idle(small).is_suspended
    assert "the state of its 9p mounts cannot be saved" in idle(small).problem
    assert "it is paused instead" in idle(small).problem
