# SPDX-License-Identifier: Apache-2.0
"""Handover between processes: liveness, takeover, and waiting, on a fake clock."""

import asyncio
import logging
from typing import Any

import pytest
from tests.runtime.runtime_world import (
    Process,
    Recorder,
    World,
    loop_clock,
    recorded,
    until,
)

from rdd.api import errors
from rdd.client import Client
from rdd.client.resources import CONFIG_MAPS, LEASES, NAMESPACES
from rdd.daemon.managers.discovery import DiscoveryMap
from rdd.daemon.managers.program_drain import wait_for_programs
from rdd.daemon.managers.registration import Registration
from rdd.daemon.readiness import VALIDATING_WEBHOOKS
from rdd.runtime import (
    AdmissionRequest,
    Denied,
    InProcessHost,
    Manager,
    ManagerOptions,
    ObjectKey,
    Ownership,
    OwnershipUnavailable,
    Result,
    validating,
)
from rdd.runtime.webhooks import remove_configurations

pytestmark = pytest.mark.looptime


def owner(world: World, name: str, **members: Any) -> tuple[Process, Ownership]:
    process = world.process()
    return process, Ownership(Client(process), name, clock=loop_clock, **members)


async def loop_time(world: World) -> float:
    return asyncio.get_running_loop().time()


# -- liveness


async def test_free_controller_has_no_holder(world: World) -> None:
    _, ownership = owner(world, "a")
    assert await ownership.find_holder("c") is None
    await ownership.start()
    await ownership.release(await ownership.acquire("c"))
    assert await ownership.find_holder("c") is None
    await ownership.stop()


async def test_live_holder_is_found_at_its_next_renewal(world: World) -> None:
    _, first = owner(world, "a")
    _, second = owner(world, "b")
    await first.start()
    await first.acquire("c")
    began = await loop_time(world)
    held = await second.find_holder("c")
    assert held is not None and held.holder == first.identity and not held.is_embedded
    assert await loop_time(world) - began <= 5.1
    await first.stop()


async def test_killed_holder_is_awaited_until_its_lease_expires(world: World) -> None:
    process, first = owner(world, "a")
    _, second = owner(world, "b")
    await first.start()
    await first.acquire("c")
    began = await loop_time(world)
    process.is_cut_off = True
    assert await second.find_holder("c") is None
    assert await loop_time(world) - began <= 15.1
    await second.start()
    claim = await second.acquire("c")
    assert claim.epoch == 1
    await first.stop()
    await second.stop()


async def test_holder_that_ends_meanwhile_does_not_block(world: World) -> None:
    _, first = owner(world, "a")
    _, second = owner(world, "b")
    await first.start()
    await first.acquire("c")
    asking = asyncio.create_task(second.find_holder("c"))
    await asyncio.sleep(0.5)
    await first.stop()
    assert await asking is None


async def test_daemon_is_found_as_holder_at_once(world: World) -> None:
    _, daemon = owner(world, "embedded", is_embedded=True)
    _, second = owner(world, "b")
    await daemon.start()
    await daemon.acquire("c")
    began = await loop_time(world)
    held = await second.find_holder("c")
    assert held is not None and held.is_embedded
    assert await loop_time(world) == began
    await daemon.stop()


async def test_unreachable_server_fails_with_the_reason(world: World) -> None:
    process, ownership = owner(world, "a", start_s=2)
    process.is_cut_off = True
    with pytest.raises(OwnershipUnavailable, match=r"cannot determine who runs .*refused"):
        await ownership.find_holder("c")


async def test_replaced_owner_is_notified(world: World) -> None:
    _, first = owner(world, "a")
    await first.start()
    claim = await first.acquire("c")
    taken = {"spec": {"holderIdentity": "b-1", "leaseTransitions": claim.epoch + 1}}
    await world.client.patch(LEASES, "controller-c", taken, namespace="rdd-system")
    await asyncio.wait_for(first.taken_over.wait(), 30)
    assert claim.lost.is_set()
    await first.stop()


async def test_release_does_not_count_as_takeover(world: World) -> None:
    _, first = owner(world, "a")
    await first.start()
    await first.acquire("c")
    name = "controller-c"
    await world.client.delete(LEASES, name, namespace="rdd-system")
    await asyncio.sleep(1)
    assert not first.taken_over.is_set()
    await first.stop()


# -- waiting for programs


async def registered(world: World, *managers: str) -> None:
    await DiscoveryMap(world.client).create()
    for manager in managers:
        await DiscoveryMap(world.client).register(manager, Registration(1, 2).text())


async def waited_s(world: World, timeout_s: float = 45) -> float:
    began = await loop_time(world)
    await wait_for_programs(world.client, timeout_s=timeout_s, clock=loop_clock)
    return await loop_time(world) - began


async def test_does_not_wait_without_programs(world: World) -> None:
    await registered(world, "embedded", "rdd")
    assert await waited_s(world) == 0


async def test_waits_for_a_program_until_it_has_released_everything(world: World) -> None:
    await registered(world, "embedded", "rdd")
    _, program = owner(world, "rdd")
    await program.start()
    waiting = asyncio.create_task(waited_s(world))
    await asyncio.sleep(20)
    assert not waiting.done()
    await program.stop()
    assert 20 <= await waiting < 20.1


async def test_waits_for_a_crashed_program_until_its_lease_expires(world: World) -> None:
    await registered(world, "embedded", "rdd")
    process, program = owner(world, "rdd")
    await program.start()
    process.is_cut_off = True
    assert await waited_s(world) <= 15.1
    await program.stop()


async def test_wait_for_a_program_has_a_timeout(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await registered(world, "embedded", "rdd")
    _, program = owner(world, "rdd")
    await program.start()
    assert await waited_s(world) == 45
    assert f"stopping without waiting longer for {program.identity}" in caplog.text
    await program.stop()


async def test_does_not_wait_for_unlisted_programs(world: World) -> None:
    await registered(world, "embedded")
    _, program = owner(world, "somebody-else")
    await program.start()
    assert await waited_s(world) == 0
    await program.stop()


# -- discovery entries


async def test_registration_creates_a_missing_config_map(world: World) -> None:
    directory = DiscoveryMap(world.client)
    with pytest.raises(errors.NotFound):
        await directory.register("rdd", "a", create=False)
    await directory.register("rdd", "a")
    found = await world.client.get(CONFIG_MAPS, "rdd-controller-manager", namespace="rdd-system")
    assert found["data"] == {"rdd": "a"}
    assert await world.client.get(NAMESPACES, "rdd-system")


async def test_does_not_remove_the_entry_of_a_successor(world: World) -> None:
    directory = DiscoveryMap(world.client)
    await directory.register("rdd", "old")
    await directory.register("rdd", "new")
    await directory.deregister("rdd", "old")
    name = "rdd-controller-manager"
    found = await world.client.get(CONFIG_MAPS, name, namespace="rdd-system")
    assert found["data"] == {"rdd": "new"}
    await directory.deregister("rdd", "new")
    await directory.deregister("rdd", "new")
    found = await world.client.get(CONFIG_MAPS, name, namespace="rdd-system")
    assert not found.get("data")


# -- draining


async def test_drained_manager_keeps_webhooks_and_leases_until_stopped(world: World) -> None:
    async def reject(request: AdmissionRequest[Any]) -> None:
        raise Denied("no")

    selector = {"matchLabels": {"guarded": "yes"}}
    webhook = validating(
        "w", CONFIG_MAPS, reject, webhook_name="w.example.com", label_selector=selector
    )
    recorder = Recorder()
    ownership = Ownership(world.client, "m", clock=loop_clock)
    manager = Manager(
        "m",
        world.client,
        [recorded("c", recorder, webhooks=(webhook,))],
        ownership=ownership,
        host=InProcessHost(world.server.endpoints),
        options=ManagerOptions(clock=loop_clock),
    )
    await manager.start()
    assert [w.name for w in manager.webhooks] == ["w"]
    await manager.drain()
    seen = len(recorder.keys)
    await world.create("a")
    with pytest.raises(errors.Forbidden, match="no"):
        await world.client.create(
            CONFIG_MAPS,
            {"metadata": {"name": "b", "namespace": "default", "labels": {"guarded": "yes"}}},
        )
    lease = await world.client.get(LEASES, "controller-c", namespace="rdd-system")
    assert lease["spec"]["holderIdentity"] == ownership.identity
    assert len(recorder.keys) == seen
    await manager.stop()
    assert manager.webhooks == ()
    lease = await world.client.get(LEASES, "controller-c", namespace="rdd-system")
    assert not lease["spec"].get("holderIdentity")


async def test_drain_timeout_applies_once(world: World, caplog: Any) -> None:
    recorder = Recorder()
    forever = asyncio.Event()

    async def hang(key: ObjectKey) -> Result:
        await forever.wait()
        return Result.done()

    recorder.do = hang
    manager = Manager(
        "m",
        world.client,
        [recorded("c", recorder)],
        options=ManagerOptions(clock=loop_clock, drain_s=10),
    )
    await manager.start()
    await world.create("a")
    await until(lambda: recorder.names)
    began = await loop_time(world)
    with caplog.at_level(logging.WARNING):
        await manager.drain()
        await manager.stop()
    assert await loop_time(world) - began == 10
    assert caplog.text.count("drain timed out, still busy: c") == 1


# -- obsolete configurations


async def test_removes_only_own_configurations(world: World) -> None:
    def configuration(name: str, url: str) -> dict[str, Any]:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": f"{name}.example.com",
                    "clientConfig": {"url": url},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }

    for name, url, manager in (
        ("ours", "https://127.0.0.1:1/a", "rdd-webhook-manager"),
        ("other-url", "https://127.0.0.1:2/a", "rdd-webhook-manager"),
        ("theirs", "https://127.0.0.1:1/a", "somebody"),
    ):
        await world.client.apply(
            VALIDATING_WEBHOOKS, configuration(name, url), field_manager=manager
        )
    removed = await remove_configurations(
        world.client, lambda found: str(found["url"]).startswith("https://127.0.0.1:1/")
    )
    assert removed == ["ours"]
    left = (await world.client.list(VALIDATING_WEBHOOKS)).items
    assert sorted(w["metadata"]["name"] for w in left) == ["other-url", "theirs"]
