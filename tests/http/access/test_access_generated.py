# SPDX-License-Identifier: Apache-2.0
"""Who may do what: every served kind and subresource, every verb, every identity, every endpoint.

The requests are generated from discovery, so a new kind is in the matrix without a change here.
The expectation is a small table per identity (EXPECTED), written from docs/security.md and
independent of the policy in the server: whatever it does not list must be refused with 403, and
whatever it lists must not be. `test_access_matrix.py` has the permissions of single operations.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.http.client import Api, as_user, binding, role

from rdd.api.types import Object
from rdd.apiserver.auth.identities import VIEWERS
from rdd.apiserver.http.request import Stream, User
from rdd.kinds.catalog import BY_CONTROLLER, crds_of
from rdd.testing import Options, Server, WatchStream, wire

CONTROLLERS = tuple(name for name in BY_CONTROLLER if name != "mock")
READ = {"get", "list", "watch"}
WRITE = {"create", "update", "patch", "delete", "deletecollection"}
ALL = READ | WRITE
MERGE = "application/merge-patch+json"
OURS = "rancherdesktop.io"
SELF = {
    "selfsubjectaccessreviews.authorization.k8s.io": {"create"},
    "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
    "selfsubjectreviews.authentication.k8s.io": {"create"},
}
VIEW = {
    "configmaps": READ,
    "serviceaccounts": READ,
    "events": READ,
    "events.events.k8s.io": READ,
    "namespaces": READ,
    "namespaces/status": READ,
    "resourcequotas": READ,
    "resourcequotas/status": READ,
}
EDIT = {
    "configmaps": ALL,
    "secrets": ALL,
    "serviceaccounts": ALL,
    "serviceaccounts/token": {"create"},
    "events": ALL,
    "events.events.k8s.io": ALL,
    "leases.coordination.k8s.io": ALL,
    "resourcequotas": READ,
    "resourcequotas/status": READ,
    "namespaces": READ,
    "namespaces/status": READ,
}
ADMIN = {
    **EDIT,
    "roles.rbac.authorization.k8s.io": ALL,
    "rolebindings.rbac.authorization.k8s.io": ALL,
    "localsubjectaccessreviews.authorization.k8s.io": {"create"},
}
VIEWER = {
    "events": READ,
    "events.events.k8s.io": READ,
    "namespaces": READ,
    **{
        f"{name}.{group}.{OURS}": READ
        for group, listed in {
            "app": ("apps", "diagnostics"),
            "containers": (
                *("containernamespaces", "containers", "images", "networks", "volumes"),
                *("imagepullrequests", "imagepushrequests", "imagetagrequests"),
            ),
            "lima": ("limavms",),
            "rdd": ("hostinfos",),
        }.items()
        for name in listed
    },
}
Allowed = dict[str, set[str]]

HEALTH = {"/healthz", "/livez", "/readyz", "/version"}
DISCOVERY = ("/api", "/apis", "/openapi")


@dataclass(frozen=True)
class Identity:
    """A user, what it may do with resources, and which paths it may read."""

    name: str
    user: User
    allowed: Allowed
    has_own_kinds: bool = False
    """May read every kind of rdd, with its subresources."""
    paths: frozenset[str] = frozenset()
    has_discovery: bool = True
    is_master: bool = False
    namespaced_role: str = ""
    """The role that is bound to the user in the namespace `default` only."""

    def may(self, resource: "Served", verb: str) -> bool:
        if self.is_master:
            return True
        if self.has_own_kinds and resource.group.endswith(OURS) and verb in READ:
            return True
        if verb in SELF.get(resource.key, ()) and self.has_discovery:
            return True
        if self.namespaced_role and not resource.is_in_namespace(verb):
            return False
        return verb in self.allowed.get(resource.key, set())

    def may_read(self, path: str) -> bool:
        if self.is_master or path in HEALTH or path in self.paths:
            return True
        return self.has_discovery and path.startswith(DISCOVERY)


@dataclass(frozen=True)
class Served:
    """A resource or subresource of discovery."""

    group: str
    version: str
    name: str
    verbs: frozenset[str]
    is_namespaced: bool

    @property
    def key(self) -> str:
        plural, slash, sub = self.name.partition("/")
        return (f"{plural}.{self.group}" if self.group else plural) + slash + sub

    def is_in_namespace(self, verb: str) -> bool:
        # A role in a namespace covers the Namespace object itself, but no list of them.
        is_own = self.name.partition("/")[0] == "namespaces" and verb not in ("list", "watch")
        return self.is_namespaced or is_own

    def path(self, verb: str) -> str:
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.is_namespaced:
            prefix += "/namespaces/default"
        plural, _, sub = self.name.partition("/")
        # Admission protects the namespace `default` from everybody's deletion.
        name = "default" if plural == "namespaces" and verb != "delete" else "some"
        on_collection = verb in ("list", "watch", "deletecollection") or (
            verb == "create" and not sub
        )
        return f"{prefix}/{plural}" + ("" if on_collection else f"/{name}{f'/{sub}' * bool(sub)}")


def account(name: str) -> User:
    groups = ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    return User(f"system:serviceaccount:default:{name}", groups)


ISSUER = frozenset(("/.well-known/openid-configuration", "/openid/v1/jwks"))
IDENTITIES = [
    Identity(
        "anonymous",
        User("system:anonymous", ("system:unauthenticated",)),
        {},
        has_discovery=False,
    ),
    Identity("without roles", as_user("jo"), {}),
    Identity("service account", account("robot"), {}, paths=ISSUER),
    Identity("user", as_user("user"), VIEW, has_own_kinds=True),
    Identity("viewer", as_user("guest", VIEWERS), VIEWER),
    Identity(
        "monitoring",
        as_user("prometheus", "system:monitoring"),
        {},
        paths=frozenset(("/metrics", "/metrics/slis")),
    ),
    Identity("view in a namespace", as_user("view-1"), VIEW, namespaced_role="view"),
    Identity("edit in a namespace", as_user("edit-1"), EDIT, namespaced_role="edit"),
    Identity("admin in a namespace", as_user("admin-1"), ADMIN, namespaced_role="admin"),
    Identity("administrator", User("admin", ("system:masters",)), {}, is_master=True),
]


async def served(api: Api) -> list[Served]:
    """Return everything that discovery lists."""
    found = []
    versions = ["/api/v1"]
    for group in (await api.get("/apis"))["groups"]:
        versions += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for path in versions:
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        for one in (await api.get(path))["resources"]:
            verbs = frozenset(one["verbs"])
            found.append(Served(group, version, one["name"], verbs, one["namespaced"]))
    return found


METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


async def status_of(api: Api, resource: Served, verb: str, user: User) -> int:
    """Return the status of a request that changes nothing."""
    query: dict[str, Any] = {"watch": "1", "timeoutSeconds": "1"} if verb == "watch" else {}
    if verb in WRITE:
        query["dryRun"] = "All"
    body: Object | None = {} if verb in ("create", "update", "patch") else None
    request = wire.make_request(
        METHODS[verb],
        resource.path(verb),
        body,
        query=query,
        content_type=MERGE if verb == "patch" else "",
        user=user,
    )
    answer = await api.server.handle(request)
    if isinstance(answer, Stream):
        await WatchStream(answer).close()
    return answer.status


@pytest.fixture
async def full(caplog: pytest.LogCaptureFixture) -> Any:
    """A client of a server with all kinds of rdd."""
    async with Server(Options(builtin_controllers="clusterrole-aggregation")) as server:
        await server.install(*crds_of(*CONTROLLERS))
        api = Api(server)
        admin = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin"
        async with asyncio.timeout(120):  # `admin` contains `edit`, which contains `view`
            while len((await api.get(admin)).get("rules") or ()) < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for identity in IDENTITIES:
            if identity.namespaced_role:
                await api.post(
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
                    binding(
                        identity.user.name,
                        identity.namespaced_role,
                        to_kind="ClusterRole",
                        subjects=[{"kind": "User", "name": identity.user.name}],
                    ),
                )
        yield api


def requests_of(found: list[Served]) -> Iterator[tuple[Served, str]]:
    for resource in found:
        for verb in sorted(resource.verbs & METHODS.keys()):
            yield resource, verb


async def test_every_kind_verb_and_identity(full: Api) -> None:
    found = await served(full)
    plurals = {resource.key for resource in found}
    wanted = {crd["metadata"]["name"] for crd in crds_of(*CONTROLLERS)}
    assert wanted <= plurals
    wrong = []
    count = 0
    for identity in IDENTITIES:
        for resource, verb in requests_of(found):
            count += 1
            status = await status_of(full, resource, verb, identity.user)
            if (status == 403) == identity.may(resource, verb):
                wrong.append(f"{identity.name}: {verb} {resource.key}: {status}")
    assert wrong == []
    assert count > 2_000


async def test_namespaced_roles_end_at_their_namespace(full: Api) -> None:
    wrong = []
    for identity in IDENTITIES:
        if not identity.namespaced_role:
            continue
        for resource, verb in requests_of(await served(full)):
            if not resource.is_namespaced or resource.key in SELF:
                continue
            path = resource.path(verb).replace("/namespaces/default/", "/namespaces/kube-system/")
            status = (await full.call(METHODS[verb], path, user=identity.user)).status
            if status != 403:
                wrong.append(f"{identity.name}: {verb} {path}: {status}")
    assert wrong == []


@pytest.mark.parametrize("identity", [pytest.param(i, id=i.name) for i in IDENTITIES])
async def test_every_endpoint(identity: Identity, full: Api) -> None:
    listed = set((await full.get("/"))["paths"]) | set(full.server.running.routes.paths)
    listed |= {"/", "/healthz/ping", "/readyz/ping", "/odd", "/passthrough/x"}
    listed |= {f"{prefix}x" for prefix, _ in full.server.running.routes.prefixes}
    monitoring = identity.name == "monitoring"
    wrong = []
    for path in sorted(path for path in listed if path):
        expected = identity.may_read(path) or (
            monitoring and path.startswith(("/healthz/", "/livez/", "/readyz/"))
        )
        status = (await full.call("GET", path, user=identity.user)).status
        if (status == 403) == expected:
            wrong.append(f"GET {path}: {status}")
        if not identity.is_master:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                status = (await full.call(method, path, user=identity.user)).status
                if status not in (403, 405):
                    wrong.append(f"{method} {path}: {status}")
    assert wrong == []


async def test_unknown_kinds_do_not_reveal_themselves(full: Api) -> None:
    """A kind that does not exist is refused exactly as one that is not allowed."""
    for path in ("/apis/odd.example.com/v1/things", "/api/v1/things", "/api/v1/secrets"):
        await full.refused(403, "GET", path, user=as_user("jo"))


async def test_no_identity_grants_more_than_it_has(full: Api) -> None:
    """For each verb: an administrator of a namespace cannot grant what they lack."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    admin = as_user("admin-1")
    for resource, verb in requests_of(await served(full)):
        rule = {"verbs": [verb], "apiGroups": [resource.group], "resources": [resource.name]}
        reply = await full.call(
            "POST", roles, role("new", [rule]), user=admin, query={"dryRun": "All"}
        )
        may = verb in ADMIN.get(resource.key, set()) or verb in SELF.get(resource.key, set())
        assert (reply.status == 403) != may, f"{verb} {resource.key}: {reply.text}"
