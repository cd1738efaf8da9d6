# SPDX-License-Identifier: Apache-2.0
"""A user's webhooks and policies cannot keep the daemon from starting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.composed import ENTRIES

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.http.request import Request
from rdd.client import ApiResource, Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, EVENTS, LEASES, NAMESPACES, SECRETS
from rdd.daemon.credentials import ADMIN
from rdd.daemon.options import ServeOptions
from rdd.daemon.readiness import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from rdd.daemon.stages import control_plane
from rdd.instance import Instance

_GROUP = f"{names.ADMISSION_GROUP}/v1"
_POLICIES = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
_BINDINGS = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_MUTATING_POLICIES = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
_MUTATING_BINDINGS = ApiResource(
    names.ADMISSION_GROUP,
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
_DEAD = "https://127.0.0.1:1/dead"
_ALL = {"apiVersions": ["*"], "operations": ["*"]}
RULES = {
    "configmaps": {"apiGroups": [""], "resources": ["configmaps"], **_ALL},
    "leases": {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], **_ALL},
    "namespaces": {"apiGroups": [""], "resources": ["namespaces", "namespaces/*"], **_ALL},
    "secrets": {"apiGroups": [""], "resources": ["secrets"], **_ALL},
    "events": {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], **_ALL},
    "everything": {"apiGroups": ["*"], "resources": ["*/*"], **_ALL},
}


@asynccontextmanager
async def daemon(home: Path, **members: Any) -> AsyncIterator[Client]:
    """Run a control plane; the client is a user with all rights."""
    options = ServeOptions(secure_port=0, controllers="stamp,guard", entries=ENTRIES, **members)
    async with control_plane(Instance("2", home), options) as running:
        yield Client(LocalTransport(running.server.handle, partial(Request, user=ADMIN)))


async def lock_out(client: Client, kind: str, rule: Object) -> list[tuple[ApiResource, str]]:
    """Create admission that rejects what a rule selects; return the created objects."""
    if kind == "policy":
        spec: Object = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "nothing is allowed"}],
        }
        await client.create(_POLICIES, {"metadata": {"name": "deny"}, "spec": spec})
        spec = {"policyName": "deny", "validationActions": ["Deny"]}
        await client.create(_BINDINGS, {"metadata": {"name": "deny"}, "spec": spec})
        return [(_BINDINGS, "deny"), (_POLICIES, "deny")]
    if kind == "mutating policy":
        failing = {"expression": "[JSONPatch{op: 'test', path: '/none/none', value: 'x'}]"}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": failing}],
        }
        await client.create(_MUTATING_POLICIES, {"metadata": {"name": "break"}, "spec": spec})
        binding = {"metadata": {"name": "break"}, "spec": {"policyName": "break"}}
        await client.create(_MUTATING_BINDINGS, binding)
        return [(_MUTATING_BINDINGS, "break"), (_MUTATING_POLICIES, "break")]
    resource = MUTATING_WEBHOOKS if kind == "mutating" else VALIDATING_WEBHOOKS
    webhook = {
        "name": "dead.example.com",
        "clientConfig": {"url": _DEAD},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    await client.create(resource, {"metadata": {"name": "dead"}, "webhooks": [webhook]})
    return [(resource, "dead")]


def sample(selected: str) -> tuple[ApiResource, Object]:
    if selected == "namespaces":
        return NAMESPACES, {"metadata": {"name": "mine"}}
    resource = {"leases": LEASES, "secrets": SECRETS, "events": EVENTS}.get(selected, CONFIG_MAPS)
    obj: Object = {"metadata": {"name": "mine", "namespace": "default"}}
    if resource is EVENTS:
        obj["involvedObject"] = {"namespace": "default"}
    return resource, obj


@pytest.mark.parametrize("selected", list(RULES))
@pytest.mark.parametrize("kind", ["policy", "mutating policy", "validating", "mutating"])
async def test_daemon_starts_and_admission_can_be_deleted(
    tmp_path: Path, kind: str, selected: str
) -> None:
    resource, obj = sample(selected)
    async with daemon(tmp_path) as client:
        created = await lock_out(client, kind, RULES[selected])
    async with daemon(tmp_path) as client:
        found = await client.get(
            CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
        )
        assert found["metadata"]["annotations"][names.READY] == "true"
        with pytest.raises(errors.ApiError):  # it still applies to users, also to administrators
            await client.create(resource, obj)
        for kind_of_admission, name in created:
            await client.delete(kind_of_admission, name)
        await client.create(resource, obj)


@pytest.mark.parametrize("kind", ["policy", "validating", "mutating"])
async def test_without_user_admission_only_own_webhooks_apply(tmp_path: Path, kind: str) -> None:
    async with daemon(tmp_path) as client:
        created = await lock_out(client, kind, RULES["everything"])
    async with daemon(tmp_path, has_user_admission=False) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        with pytest.raises(errors.Forbidden, match="that is bad"):
            await client.create(
                CONFIG_MAPS,
                {
                    "metadata": {
                        "name": "b",
                        "namespace": "default",
                        "labels": {"guarded": "yes"},
                    },
                    "data": {"bad": "yes"},
                },
            )
        for resource, name in created:
            await client.delete(resource, name)


async def test_own_objects_of_users_are_not_exempt(tmp_path: Path) -> None:
    """The exemption is for the daemon: a user's object in its namespace is checked."""
    async with daemon(tmp_path) as client:
        await lock_out(client, "policy", RULES["configmaps"])
        with pytest.raises(errors.ApiError, match="nothing is allowed"):
            await client.create(
                CONFIG_MAPS, {"metadata": {"name": "a", "namespace": names.SYSTEM_NAMESPACE}}
            )
