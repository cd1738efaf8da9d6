# SPDX-License-Identifier: Apache-2.0
"""The rules of a deployment profile limit every client, however it proves who it is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from tests.http.admission.admission_world import ADMIN, Reply, World

from rdd.api.types import Object
from rdd.apiserver.admission.exemption import DAEMON
from rdd.apiserver.auth.ceiling import ADMINISTRATORS, Ceiling
from rdd.apiserver.http.request import Request, Response, Stream, User
from rdd.http.exchange import parse_query

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]},
    {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]},
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
]
TOKENS = {
    "admin": ADMIN,
    "forged": User("system:kube-controller-manager", ("system:masters",)),
    "granted": User("granted"),
    "other": User("other"),
}


class CeilingWorld(World):
    """A server whose clients have tokens."""

    async def send(
        self, token: str, method: str, path: str, obj: Any = None, **headers: str
    ) -> Reply:
        request = Request(
            method,
            path,
            query=parse_query(""),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
            body=orjson.dumps(obj) if obj is not None else b"",
        )
        response = await self.server.handle(request)
        assert isinstance(response, Response)
        return Reply(response, request)


@pytest.fixture
async def world() -> AsyncIterator[CeilingWorld]:
    found = await CeilingWorld.open(tokens=TOKENS)
    assert isinstance(found, CeilingWorld)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "granted"}
    binding = {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]}
    await found.make(f"{RBAC}/clusterrolebindings", binding)
    found.server.set_ceiling(Ceiling(RULES, "FILE"))
    yield found
    await found.server.close()


@pytest.mark.parametrize("token", ["admin", "forged", "granted"])
async def test_client_may_do_what_the_rules_allow_and_no_more(
    world: CeilingWorld, token: str
) -> None:
    made = {"metadata": {"name": token}}
    assert (await world.send(token, "POST", CONFIG_MAPS, made)).status == 201
    for method, path, body in (
        ("POST", SECRETS, made),
        ("GET", SECRETS, None),
        ("DELETE", f"{CONFIG_MAPS}/{token}", None),
        ("GET", "/metrics", None),
        ("POST", "/service/rotate-tokens", None),
    ):
        reply = await world.send(token, method, path, body)
        assert reply.status == 403, (method, path)
        assert "rdd.rules of FILE do not allow it" in reply.message


async def test_rules_grant_nothing_to_others(world: CeilingWorld) -> None:
    assert (await world.send("other", "GET", CONFIG_MAPS)).status == 403
    assert (await world.send("other", "GET", "/version")).status == 200


async def test_no_client_is_a_master(world: CeilingWorld) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    for token in ("admin", "forged"):
        found = (await world.send(token, "POST", path, review)).body["status"]["userInfo"]
        assert found["groups"] == [ADMINISTRATORS, "system:authenticated"]
    impersonating = {"Impersonate_User": "me", "Impersonate_Group": "system:masters"}
    found = (await world.send("admin", "POST", path, review, **impersonating)).body
    assert "system:masters" not in found["status"]["userInfo"]["groups"]
    assert (await world.send("admin", "GET", SECRETS, **impersonating)).status == 403


async def test_sessions_of_the_dashboard_are_limited_and_the_daemon_is_not(
    world: CeilingWorld,
) -> None:
    assert (await world.call("GET", SECRETS, user=ADMIN)).status == 403
    assert (await world.call("GET", CONFIG_MAPS, user=ADMIN)).status == 200
    assert (await world.call("GET", SECRETS, user=DAEMON)).status == 200


async def test_reviews_answer_as_requests_do(world: CeilingWorld) -> None:
    for resource, is_allowed in (("configmaps", True), ("secrets", False)):
        attributes = {"namespace": "default", "verb": "get", "resource": resource}
        review: Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = f"{REVIEWS}/selfsubjectaccessreviews"
        reply = await world.send("admin", "POST", path, review)
        assert reply.body["status"]["allowed"] == is_allowed
    listing = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    rules = (await world.send("admin", "POST", path, listing)).body["status"]["resourceRules"]
    assert {"secrets", "*"} & {name for rule in rules for name in rule["resources"]} == {"*"}
    assert ["configmaps"] in [rule["resources"] for rule in rules]


async def test_roles_cannot_grant_beyond_the_rules(world: CeilingWorld) -> None:
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    role = {"metadata": {"name": "more"}, "rules": [rule]}
    assert (await world.send("admin", "POST", f"{RBAC}/clusterroles", role)).status == 201
    # `*` includes the verb escalate. The role is there, and still opens nothing.
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "other"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more"}
    binding = {"metadata": {"name": "more"}, "roleRef": reference, "subjects": [subject]}
    path = f"{RBAC}/clusterrolebindings"
    assert (await world.send("admin", "POST", path, binding)).status == 201
    assert (await world.send("other", "GET", SECRETS)).status == 403


class Sink:
    """A client that reads everything and does not disconnect."""

    async def write(self, data: bytes) -> None: ...

    def push(self, data: bytes) -> bool:
        return True

    async def closed(self) -> None:
        await asyncio.Event().wait()


async def test_change_of_the_rules_ends_watches(world: CeilingWorld) -> None:
    headers = {"Authorization": "Bearer admin"}
    request = Request("GET", CONFIG_MAPS, query=parse_query("watch=true"), headers=headers)
    stream = await world.server.handle(request)
    assert isinstance(stream, Stream)
    watching = asyncio.ensure_future(stream.produce(Sink()))
    await asyncio.sleep(0)
    world.server.set_ceiling(None)
    await asyncio.wait_for(watching, 60)
    assert (await world.send("admin", "GET", SECRETS)).status == 200
