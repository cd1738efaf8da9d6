# SPDX-License-Identifier: Apache-2.0
"""Pause and wake of a guest that boots in seconds, with one boot for all."""

import asyncio
import time

from tests.e2e.machine.qemu_world import SMALL, World, eventually

from rdd.controllers.lima.limavm import reasons
from rdd.vm.clock_report import ClockReport
from rdd.vm.drivers.qemu import files
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.idle.report import IdleReport
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.instance_dir import InstanceDirectory

QUICK = IdleSettings(action="pause", after_s=1)
PORT = 8097
BREAK_SUDO = """date -u -s @1700000000
mv /usr/bin/sudo /usr/bin/sudo.real
printf '#!/bin/sh\n' >/usr/bin/sudo
chmod +x /usr/bin/sudo
"""


def idle(small: World) -> IdleReport:
    return small.machines.phase("vm").idle or IdleReport()


def clock(small: World) -> ClockReport:
    return small.machines.phase("vm").clock or ClockReport()


def is_forwarded(small: World) -> bool:
    return any(
        one.type == "forwarding" and one.host_address.endswith(str(PORT))
        for one in small.machines.phase("vm").forwards
    )


async def until_paused(small: World) -> None:
    try:
        await eventually(lambda: bool(idle(small).paused_since), timeout_s=60)
    except AssertionError:
        raise AssertionError(f"not paused: {idle(small)}\n{small.logs('vm')}") from None


async def run_state(directory: InstanceDirectory) -> str:
    """Return the state that the emulator reports; only possible without an agent."""
    qmp = await Qmp.connect(directory.path / files.QMP_SOCKET)
    try:
        return str((await qmp.execute("query-status"))["status"])
    finally:
        await qmp.close()


async def get() -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        try:
            writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
            return await reader.read()
        finally:
            writer.close()


async def drift_s(small: World) -> float:
    return int(await small.shell("vm", "date", "+%s")) - int(time.time())


async def test_guest_is_paused_and_woken_by_its_clients(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    serve = f"echo hi >/tmp/index.html; httpd -p 127.0.0.1:{PORT} -h /tmp"
    await small.shell("vm", "sh", "-c", serve)
    await eventually(lambda: is_forwarded(small))
    await small.machines.set_idle("vm", QUICK)

    for _ in range(3):
        await until_paused(small)
        assert b"hi" in await get()
        assert idle(small).cause == f"a client of 127.0.0.1:{PORT}"

    # A connection that is open while the guest is paused continues.
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    await until_paused(small)
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(60):
        assert b"hi" in await reader.read()
    writer.close()

    # After the kill of the agent the guest is paused with a record, and a new one wakes it.
    await until_paused(small)
    await small.kill(directory.agent())
    assert directory.paused.exists()
    assert await run_state(directory) in ("paused", "running")  # just before its pause
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    await eventually(lambda: is_forwarded(small))
    assert b"hi" in await get()

    # The guest's clock is set after a pause.
    await until_paused(small)
    await asyncio.sleep(3)
    await small.machines.set_idle("vm", IdleSettings())
    await eventually(lambda: not idle(small).action)
    async with asyncio.timeout(60):
        while abs(await drift_s(small)) > 1:
            pass
    await eventually(lambda: clock(small).was_ahead_s < -1)
    assert (clock(small).ahead_s, clock(small).problem) == (0, "")
    condition = reasons.clock(clock(small))
    assert (condition.status, condition.reason) == ("True", "Synchronized")
    assert "s behind and was set at 20" in condition.message

    # A clock that cannot be set is reported with how far it is off, and set once that works.
    await small.shell("vm", "sudo", "sh", "-c", BREAK_SUDO)
    await small.machines.set_idle("vm", QUICK)
    await until_paused(small)
    await small.machines.set_idle("vm", IdleSettings())
    await eventually(lambda: clock(small).problem == "it cannot be set", timeout_s=120)
    assert clock(small).ahead_s < -1000
    assert reasons.clock(clock(small)).reason == "ClockOff"
    await small.shell("vm", "/usr/bin/sudo.real", "mv", "/usr/bin/sudo.real", "/usr/bin/sudo")
    await eventually(lambda: clock(small).problem == "", timeout_s=180)
    assert clock(small).was_ahead_s < -1000
    assert abs(await drift_s(small)) <= 2

    await small.machines.set_idle("vm", QUICK)
    await until_paused(small)
    await small.stop("vm")
    assert not directory.paused.exists()
