# SPDX-License-Identifier: Apache-2.0
"""One process per controller: leases, takeover, fenced writes."""

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.runtime.runtime_world import (
    Process,
    Recorder,
    World,
    config_map,
    loop_clock,
    recorded,
    until,
)

from rdd.api import errors
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.client import Call, Client, LocalTransport, Unreachable
from rdd.client.resources import CONFIG_MAPS, LEASES, NAMESPACES
from rdd.runtime import (
    AdmissionRequest,
    HeldByOther,
    InProcessHost,
    Manager,
    ManagerOptions,
    ObjectKey,
    Ownership,
    OwnershipUnavailable,
    Result,
    validating,
)
from rdd.runtime.admission import Reviewer
from rdd.runtime.ownership import Claim
from rdd.runtime.webhooks import apply_configuration

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("skew_s", [-3600, 3600])
async def test_processes_whose_clocks_differ_take_over_in_time(world: World, skew_s: int) -> None:
    def start(name: str, ahead_s: float) -> Ownership:
        return Ownership(
            Client(world.process()),
            name,
            lease_s=4,
            renew_s=1,
            clock=lambda: loop_clock() + ahead_s,
            compares_clocks=False,
        )

    one, two = start("one", 0), start("two", skew_s)
    await one.start()
    await two.start()
    try:
        await one.wait_for("c")
        waiting = asyncio.ensure_future(two.wait_for("c"))
        await asyncio.sleep(60)
        assert not waiting.done()  # the holder renews, whatever its clock shows
        now = asyncio.get_running_loop().time()
        for task in one._tasks:  # as if the process had been killed
            task.cancel()
        claim = await waiting
        assert claim.epoch == 1
        assert asyncio.get_running_loop().time() - now <= 5
    finally:
        await one.stop()
        await two.stop()


class Program:
    """A process with one controller, "c"."""

    def __init__(self, world: World, name: str = "m", **options: Any) -> None:
        self.process: Process = world.process()
        self.client = Client(self.process)
        self.recorder = Recorder()
        embedded = options.pop("is_embedded", False)
        self.ownership = Ownership(self.client, name, clock=loop_clock, is_embedded=embedded)
        self.manager = Manager(
            name,
            self.client,
            [recorded("c", self.recorder)],
            ownership=self.ownership,
            options=ManagerOptions(clock=loop_clock, **options),
        )

    @property
    def is_working(self) -> bool:
        return self.manager.running == ("c",)

    async def kill(self) -> None:
        """Kill the process."""
        self.process.is_cut_off = True
        await self.manager.stop()


async def lease(world: World, name: str = "controller-c") -> dict[str, Any]:
    return await world.client.get(LEASES, name, namespace="rdd-system")


async def test_exactly_one_of_two_processes_reconciles(world: World) -> None:
    programs = [Program(world), Program(world)]
    async with asyncio.TaskGroup() as group:
        for program in programs:
            group.create_task(program.manager.start())
    await world.create("a")
    await until(lambda: any(p.recorder.names for p in programs))
    await asyncio.sleep(120)
    assert sorted(p.recorder.names for p in programs) == [[], ["a"]]
    assert sorted(p.is_working for p in programs) == [False, True]
    assert [p.manager.problem() for p in programs] == ["", ""]
    for program in programs:
        await program.manager.stop()


def slow_down(world: World) -> None:
    """Make the requests of all processes overlap."""
    inner = world.server.handle

    async def handle(request: Request) -> AnyResponse:
        await asyncio.sleep(0.01)
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]


async def test_exactly_one_of_many_racing_processes_acquires_a_lease(world: World) -> None:
    slow_down(world)
    many = [Ownership(world.client, "m", clock=loop_clock) for _ in range(10)]
    await asyncio.gather(*(one.start() for one in many))
    for epoch in range(3):  # first a new lease, then a released one
        outcomes = await asyncio.gather(*(o.acquire("c") for o in many), return_exceptions=True)
        claims = [outcome for outcome in outcomes if isinstance(outcome, Claim)]
        assert len(claims) == 1
        assert [type(o) for o in outcomes].count(HeldByOther) == 9
        assert claims[0].epoch == epoch
        await many[outcomes.index(claims[0])].release(claims[0])
    for one in many:
        await one.stop()


async def test_stop_times_out_if_the_server_does_not_respond(world: World) -> None:
    program = Program(world)
    await program.manager.start()
    program.process.freeze()
    begun = asyncio.get_running_loop().time()
    await program.manager.stop()
    assert asyncio.get_running_loop().time() - begun <= 6


async def test_missing_permission_for_leases_fails_at_once(world: World) -> None:
    transport = LocalTransport(world.handle, partial(Request, user=User("nobody", ())))
    ownership = Ownership(Client(transport), "m", clock=loop_clock)
    with pytest.raises(OwnershipUnavailable, match=r"cannot use leases: .*nobody.* cannot"):
        await ownership.start()
    assert asyncio.get_running_loop().time() < 1


async def test_waits_for_a_terminating_namespace(world: World) -> None:
    metadata = {"name": "rdd-system"}
    await world.client.create(NAMESPACES, {"metadata": metadata})
    await world.client.delete(NAMESPACES, "rdd-system")
    ownership = Ownership(world.client, "m", clock=loop_clock)
    starting = asyncio.ensure_future(ownership.start())
    await asyncio.sleep(3)
    assert not starting.done()
    ending = await world.client.get(NAMESPACES, "rdd-system")
    ending["spec"]["finalizers"] = []
    await world.client.update(NAMESPACES, ending, subresource="finalize")
    await starting
    await ownership.stop()


async def test_lease_has_holder_and_epoch(world: World) -> None:
    program = Program(world)
    await program.manager.start()
    spec = (await lease(world))["spec"]
    assert spec["holderIdentity"] == program.ownership.identity
    assert spec["leaseDurationSeconds"] == 15
    beat = (await lease(world, f"manager-{program.ownership.identity}"))["spec"]
    await asyncio.sleep(5.1)
    renewed = (await lease(world, f"manager-{program.ownership.identity}"))["spec"]
    assert renewed["renewTime"] > beat["renewTime"]
    await program.manager.stop()
    assert "holderIdentity" not in (await lease(world))["spec"]
    with pytest.raises(errors.NotFound):
        await lease(world, f"manager-{program.ownership.identity}")


async def test_graceful_stop_releases_the_lease_at_once(world: World) -> None:
    first, second = Program(world), Program(world)
    await first.manager.start()
    await second.manager.start()
    begun = asyncio.get_running_loop().time()
    await first.manager.stop()
    await until(lambda: second.is_working)
    assert asyncio.get_running_loop().time() - begun < 1
    assert (await lease(world))["spec"]["leaseTransitions"] == 1
    await second.manager.stop()


async def test_takes_over_from_a_killed_process_when_its_lease_expires(
    world: World,
) -> None:
    first, second = Program(world), Program(world)
    await first.manager.start()
    await second.manager.start()
    await asyncio.sleep(12)
    begun = asyncio.get_running_loop().time()
    await first.kill()
    assert not second.is_working
    await until(lambda: second.is_working)
    assert 10 <= asyncio.get_running_loop().time() - begun <= 15.5
    with pytest.raises(errors.NotFound):
        await lease(world, f"manager-{first.ownership.identity}")
    await second.manager.stop()


async def test_start_fails_with_the_holder_if_it_must_not_wait(world: World) -> None:
    first, second = Program(world), Program(world, if_held="fail")
    await first.manager.start()
    with pytest.raises(HeldByOther) as rejected:
        await second.manager.start()
    assert str(rejected.value) == f'controller "c" is run by "{first.ownership.identity}"'
    await first.manager.stop()


async def test_starts_nothing_if_the_server_does_not_respond(world: World) -> None:
    program = Program(world)
    program.process.is_cut_off = True
    with pytest.raises(OwnershipUnavailable, match=r"who runs .*: .*connection refused"):
        await program.manager.start()
    assert program.recorder.context is None


async def test_stops_if_it_cannot_renew_and_resumes_later(
    world: World,
) -> None:
    program = Program(world)
    ended: list[str] = []

    async def long(key: ObjectKey) -> Result:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append(key.name)
            raise
        return Result.done()

    program.recorder.do = long
    await world.create("a")
    await program.manager.start()
    await until(lambda: program.recorder.names == ["a"])
    program.process.is_cut_off = True
    begun = asyncio.get_running_loop().time()
    await until(lambda: ended)
    assert asyncio.get_running_loop().time() - begun <= 15 + 5
    assert not program.is_working
    assert program.ownership.server_lost.is_set()
    program.process.is_cut_off = False
    await until(lambda: program.is_working)
    assert not program.ownership.server_lost.is_set()
    await until(lambda: program.recorder.names == ["a", "a"])
    await program.manager.stop()


async def test_rejects_writes_of_a_suspended_owner_after_it_resumes(world: World) -> None:
    frozen, second = Program(world, "one"), Program(world, "two")
    await world.create("target")

    async def write(key: ObjectKey) -> Result:
        assert frozen.recorder.context is not None
        client = frozen.recorder.context.client
        while True:
            try:
                await client.patch(CONFIG_MAPS, "target", _data("one"), namespace="default")
            except (errors.ApiError, Unreachable):
                pass
            await asyncio.sleep(1)

    frozen.recorder.do = write
    await frozen.manager.start()
    await second.manager.start()
    await until(lambda: world.writes)
    stale = frozen.recorder.context
    assert stale is not None
    owner = world.writes[0][0]

    frozen.process.freeze()
    # The request is in flight, and the process cannot cancel it.
    late = [
        asyncio.ensure_future(
            stale.client.patch(CONFIG_MAPS, "target", _data("late"), namespace="default")
        )
        for _ in range(3)
    ]
    await until(lambda: second.is_working)
    before = len(world.writes)
    await world.patch("target", _data("two"))

    frozen.process.resume()
    results = await asyncio.gather(*late, return_exceptions=True)
    await asyncio.sleep(60)
    assert [type(r) for r in results] == [errors.Conflict] * 3
    message = str(results[0])
    assert f'owned by "{second.ownership.identity}" in epoch 1' in message
    assert f'not by "{frozen.ownership.identity}" in epoch 0' in message
    after = [w for w in world.writes[before:] if w[0] == owner]
    assert after
    assert {status for _, _, status in after} == {409}
    assert (await world.get("target"))["data"] == {"by": "two"}
    assert not frozen.is_working
    assert second.is_working
    await frozen.manager.stop()
    await second.manager.stop()


async def test_owner_cannot_write_after_its_lease_has_expired(world: World) -> None:
    program = Program(world)
    await world.create("target")
    await program.manager.start()
    context = program.recorder.context
    assert context is not None
    program.process.freeze()
    late = asyncio.ensure_future(
        context.client.patch(CONFIG_MAPS, "target", _data("late"), namespace="default")
    )
    await asyncio.sleep(14)
    program.process.resume()
    await late
    program.process.freeze()
    late = asyncio.ensure_future(
        context.client.patch(CONFIG_MAPS, "target", _data("later"), namespace="default")
    )
    await asyncio.sleep(100)
    # The write was sent before the heartbeat was renewed.
    program.process.resume()
    with pytest.raises(errors.Conflict, match="has not renewed its ownership"):
        await late
    await until(lambda: program.is_working and program.recorder.context is not context)
    current = program.recorder.context
    assert current is not None
    await current.client.patch(CONFIG_MAPS, "target", _data("new"), namespace="default")
    await program.manager.stop()


def _data(by: str) -> dict[str, Any]:
    return {"data": {"by": by}}


async def test_lost_lease_cancels_a_reconciliation(world: World) -> None:
    program = Program(world)
    ended = asyncio.Event()

    async def long(key: ObjectKey) -> Result:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()
        return Result.done()

    program.recorder.do = long
    await world.create("a")
    await program.manager.start()
    await until(lambda: program.recorder.names)
    first = program.recorder.context
    present = await lease(world)
    present["spec"].update(holderIdentity="other", leaseTransitions=7)
    await world.client.update(LEASES, present)
    async with asyncio.timeout(1):
        await ended.wait()
    # A holder without a heartbeat does not keep the lease.
    await until(lambda: program.is_working and program.recorder.context is not first)
    assert (await lease(world))["spec"]["leaseTransitions"] == 8
    await program.manager.stop()


async def test_deleted_lease_is_lost_and_acquired_again(world: World) -> None:
    earlier, program = Program(world), Program(world)
    await earlier.manager.start()
    await earlier.manager.stop()
    await program.manager.start()
    for _ in range(2):  # in the second epoch, and in the first of a new lease
        last = program.recorder.context
        await world.client.delete(LEASES, "controller-c", namespace="rdd-system")
        await until(lambda: program.is_working and program.recorder.context is not last)  # noqa: B023
        assert (await lease(world))["spec"]["holderIdentity"] == program.ownership.identity
    await program.manager.stop()


async def test_embedded_manager_needs_no_heartbeat(
    world: World,
) -> None:
    embedded, external = Program(world, "embedded", is_embedded=True), Program(world)
    await embedded.manager.start()
    await external.manager.start()
    await asyncio.sleep(3600)
    assert embedded.is_working
    assert not external.is_working
    await embedded.manager.stop()
    await until(lambda: external.is_working)
    await external.manager.stop()


async def test_leases_of_an_earlier_daemon_are_free(world: World) -> None:
    earlier = Ownership(world.client, "embedded", is_embedded=True, clock=loop_clock)
    await earlier.start()
    await earlier.acquire("c")
    await earlier.acquire("other")
    embedded = Program(world, "embedded", is_embedded=True)
    await embedded.manager.start()
    assert embedded.is_working
    assert "holderIdentity" not in (await lease(world, "controller-other"))["spec"]
    await embedded.manager.stop()
    await earlier.stop()


@pytest.mark.parametrize("owner", ["c", "c/x", "c/x/y", "c/x/1/2", "nobody/x/0", "c/../0"], ids=str)
async def test_rejects_a_write_without_a_current_owner(world: World, owner: str) -> None:
    program = Program(world)
    await program.manager.start()
    reply = await world.client.transport.request(_write(owner))
    assert reply.status == 409
    assert b'"reason":"StaleOwner"' in reply.body
    assert (await world.client.list(CONFIG_MAPS, namespace="default")).items == []
    await program.manager.stop()


def _write(owner: str) -> Call:
    headers = {"Content-Type": "application/json", "X-Rdd-Owner": owner}
    body = b'{"metadata":{"name":"x"}}'
    return Call("POST", "/api/v1/namespaces/default/configmaps", {}, headers, body)


async def test_delayed_write_is_checked_against_the_owner_at_commit(
    world: World,
) -> None:
    called, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: AdmissionRequest[Any]) -> None:
        called.set()
        await answer.wait()

    webhook = validating("slow", CONFIG_MAPS, slow, webhook_name="slow.test.example.com")
    reviewer, host = Reviewer(), InProcessHost(world.server.endpoints)
    reviewer.add(webhook)
    await host.start(reviewer)
    host.add(webhook)
    await apply_configuration(
        world.client, webhook, url_prefix=host.url_prefix, ca_bundle=host.ca_bundle
    )
    first, second = (
        Ownership(world.client, name, clock=loop_clock, is_embedded=True) for name in ("a", "b")
    )
    await first.start()
    claim = await first.acquire("c")
    write = asyncio.ensure_future(first.client_for(claim).create(CONFIG_MAPS, config_map("late")))
    await called.wait()
    await second.start()
    await second.acquire("c")
    answer.set()
    with pytest.raises(errors.Conflict, match='controller "c" is owned by "b-'):
        await write
    with pytest.raises(errors.NotFound):
        await world.get("late")
    await first.stop()
    await second.stop()
