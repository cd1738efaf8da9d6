# SPDX-License-Identifier: Apache-2.0
"""The attacks: each breaks something for a moment and repairs it.

Clocks are not here: the clock of an API server is shifted for the whole run (`skew.c`). The
clocks of members cannot be shifted that way, because Go programs do not call libc for the time;
etcd itself depends on them for leases only by durations.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.etcd_attack.cluster import Cluster
from tests.etcd_attack.servers import ServerUnderAttack

Fault = Callable[["World"], AbstractAsyncContextManager[None]]


class World:
    """What can be attacked."""

    def __init__(self, cluster: Cluster, servers: list[ServerUnderAttack]) -> None:
        self.cluster = cluster
        self.servers = servers


@asynccontextmanager
async def kill_leader(world: World) -> AsyncIterator[None]:
    leader = await asyncio.to_thread(world.cluster.leader)
    leader.stop()
    yield
    leader.start(wait=False)


@asynccontextmanager
async def pause_leader(world: World) -> AsyncIterator[None]:
    leader = await asyncio.to_thread(world.cluster.leader)
    leader.signal(signal.SIGSTOP)
    yield
    leader.signal(signal.SIGCONT)


@asynccontextmanager
async def kill_majority(world: World) -> AsyncIterator[None]:
    """Take the quorum away: writes and consistent reads are 503, then everything recovers."""
    leader = await asyncio.to_thread(world.cluster.leader)
    gone = [leader, world.cluster.others(leader)[0]]
    for member in gone:
        member.stop()
    yield
    for member in gone:
        member.start(wait=False)


def _partition(*, incoming: bool, outgoing: bool) -> Fault:
    @asynccontextmanager
    async def partition(world: World) -> AsyncIterator[None]:
        """Cut the leader off from the other members; the API servers still reach it."""
        leader = await asyncio.to_thread(world.cluster.leader)
        for other in world.cluster.others(leader):
            leader.cut_off(other.address, incoming=incoming, outgoing=outgoing)
        yield
        leader.reconnect()

    return partition


def _cut_off_server(*, requests: bool, responses: bool) -> Fault:
    @asynccontextmanager
    async def cut_off(world: World) -> AsyncIterator[None]:
        """Cut an API server off from etcd."""
        relays = world.servers[0].relays
        for relay in relays:
            relay.block(requests=requests, responses=responses)
        yield
        for relay in relays:
            relay.heal()

    return cut_off


@asynccontextmanager
async def cut_off_from_one_member(world: World) -> AsyncIterator[None]:
    """Cut all API servers off from the first member; they use the others."""
    for server in world.servers:
        server.relays[0].block()
    yield
    for server in world.servers:
        server.relays[0].heal()


@asynccontextmanager
async def delay(world: World) -> AsyncIterator[None]:
    """Make one server's network slow, the other one's slower."""
    for number, server in enumerate(world.servers):
        for relay in server.relays:
            relay.delay_s = 0.05 + 0.2 * number
    yield
    for server in world.servers:
        for relay in server.relays:
            relay.heal()


@asynccontextmanager
async def pause_server(world: World) -> AsyncIterator[None]:
    world.servers[0].signal(signal.SIGSTOP)
    yield
    world.servers[0].signal(signal.SIGCONT)


@asynccontextmanager
async def kill_server(world: World) -> AsyncIterator[None]:
    server = world.servers[1]
    server.stop()
    yield
    server.start()
    await asyncio.to_thread(server.wait_ready)


@asynccontextmanager
async def move_leader(world: World) -> AsyncIterator[None]:
    """Move the leadership to another member, several times, during writes."""
    for _ in range(3):
        leader = await asyncio.to_thread(world.cluster.leader)
        target = world.cluster.others(leader)[0]
        status = await asyncio.to_thread(target.etcdctl, "endpoint", "status", check=False)
        if status:
            member = status.split(",")[1].strip()
            await asyncio.to_thread(leader.etcdctl, "move-leader", member, check=False)
    yield


@asynccontextmanager
async def compact(world: World) -> AsyncIterator[None]:
    """Compact to a recent revision again and again while lists are read page by page."""
    leader = await asyncio.to_thread(world.cluster.leader)
    for _ in range(10):
        text = await asyncio.to_thread(leader.etcdctl, "get", "none", "--write-out=json")
        revision = int(text.partition('"revision":')[2].partition(",")[0])
        await asyncio.to_thread(leader.etcdctl, "compact", str(revision - 5), check=False)
        await asyncio.sleep(0.1)
    yield


@asynccontextmanager
async def fill_disk(world: World) -> AsyncIterator[None]:
    """Fill the disk of the leader; etcd ends when it cannot write its log."""
    leader = await asyncio.to_thread(world.cluster.leader)
    with leader.full_disk():
        yield
    leader.stop()
    leader.start(wait=False)


@asynccontextmanager
async def stall_disk(world: World) -> AsyncIterator[None]:
    """Let the writes of the leader's disk wait: a disk that is slow beyond use."""
    leader = await asyncio.to_thread(world.cluster.leader)
    with leader.stalled_disk():
        yield


@asynccontextmanager
async def slow_disk(world: World) -> AsyncIterator[None]:
    """Stall the disk of a follower for short times, again and again."""
    leader = await asyncio.to_thread(world.cluster.leader)
    member = world.cluster.others(leader)[0]
    async with _repeated(lambda: member.stalled_disk()):
        yield


@asynccontextmanager
async def _repeated(
    make: Callable[[], contextlib.AbstractContextManager[None]],
) -> AsyncIterator[None]:
    async def repeat() -> None:
        while True:
            with make():
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


FAULTS: dict[str, Fault] = {
    "kill-leader": kill_leader,
    "pause-leader": pause_leader,
    "kill-majority": kill_majority,
    "partition-leader": _partition(incoming=True, outgoing=True),
    "partition-leader-incoming": _partition(incoming=True, outgoing=False),
    "partition-leader-outgoing": _partition(incoming=False, outgoing=True),
    "cut-off-server": _cut_off_server(requests=True, responses=True),
    "cut-off-server-responses": _cut_off_server(requests=False, responses=True),
    "cut-off-server-requests": _cut_off_server(requests=True, responses=False),
    "cut-off-member": cut_off_from_one_member,
    "delay": delay,
    "pause-server": pause_server,
    "kill-server": kill_server,
    "move-leader": move_leader,
    "compact": compact,
    "full-disk": fill_disk,
    "stalled-disk": stall_disk,
    "slow-disk": slow_disk,
}
