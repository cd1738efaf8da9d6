# SPDX-License-Identifier: Apache-2.0
"""Writers that hang in a webhook leave places for others, and for the repair."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.http.admission.admission_world import ADMIN, CONFIG_MAPS, REGISTRATION, World, webhook

from rdd.api.types import Object
from rdd.apiserver.admission.exemption import DAEMON
from rdd.apiserver.fairness import InFlight
from rdd.apiserver.http.request import Request, User

SECRETS = "/api/v1/namespaces/default/secrets"
ALICE, BOB = User("alice"), User("bob")
KINDS = ["validating", "mutating"]


@asynccontextmanager
async def hanging(kind: str, user: User) -> AsyncIterator[World]:
    """A server whose places for writes by a user are taken by writes that hang in a webhook."""
    limits = InFlight(writing=40, administrators=4, repairs=2)
    world = await World.open(limits=limits)
    release = asyncio.Event()

    async def hang(review: Object, request: Request) -> Object:
        await release.wait()
        return {}

    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        for name in ("alice", "bob")
    ]
    await world.make(rbac, {"metadata": {"name": "all"}, "roleRef": role, "subjects": subjects})
    await world.configure(
        kind, "hanging", webhook("hanging", world.hook("hanging", hang), timeoutSeconds=30)
    )
    writes = [
        asyncio.create_task(
            world.call("POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}}, user=user)
        )
        for i in range(60)
    ]
    try:
        done, pending = await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(1_000):
            if limits.writing + limits.rejected == len(writes):
                break
            await asyncio.sleep(0)
        assert limits.writing + limits.rejected == len(writes)
        assert {task.result().status for task in done} == {429}
        assert pending
        yield world
    finally:
        release.set()
        await asyncio.gather(*writes)
        assert limits.writing == 0
        await world.server.close()


@pytest.mark.parametrize("user", [ADMIN, ALICE], ids=["administrator", "user"])
@pytest.mark.parametrize("kind", KINDS)
async def test_hanging_webhook_can_be_deleted_by_the_user_whose_writes_hang(
    kind: str, user: User
) -> None:
    async with hanging(kind, user) as world:
        assert (await world.call("POST", SECRETS, {}, user=user)).status == 429
        path = f"{REGISTRATION}/{kind}webhookconfigurations/hanging"
        assert (await world.call("DELETE", path, user=user)).status == 200


@pytest.mark.parametrize("kind", KINDS)
async def test_others_still_write(kind: str) -> None:
    async with hanging(kind, ALICE) as world:
        for number, user in enumerate((BOB, ADMIN, DAEMON)):
            obj = {"metadata": {"name": f"s{number}"}}
            assert (await world.call("POST", SECRETS, obj, user=user)).status == 201
