# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring need the rights of what is saved, not only those on Snapshots."""

import pytest
from tests.http.client import MERGE, RBAC, Api, as_user, binding, namespace, role
from tests.unit.kinds.paths import path_of

from rdd.api import names
from rdd.api.types import Object
from rdd.kinds.crd import definition_of
from rdd.kinds.snapshot import Snapshot

JO = as_user("jo")
SNAPSHOTS = {"apiGroups": [names.RDD_GROUP], "resources": ["snapshots"], "verbs": ["*"]}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
APPS = {"apiGroups": [names.APP_GROUP], "resources": ["apps"], "verbs": ["update"]}
MACHINES = {"apiGroups": [names.LIMA_GROUP], "resources": ["limavms"], "verbs": ["update"]}
NEW_MACHINES = {**MACHINES, "verbs": ["create"]}
NAMESPACE: Object = {"kind": "Namespace", "name": "one"}
APP: Object = {"kind": "App"}
INSTANCE: Object = {"kind": "Instance"}
MACHINE: Object = {"kind": "LimaVM", "name": "vm", "namespace": "one"}


def request(**annotations: str) -> Object:
    named = {f"{names.RDD_GROUP}/{key}": text for key, text in annotations.items()}
    return {"metadata": {"annotations": named}}


def snapshot(name: str, scope: Object, **annotations: str) -> Object:
    found = request(**annotations)
    found["metadata"]["name"] = name
    return {
        "apiVersion": names.RDD_API.removeprefix("/apis/"),
        "kind": "Snapshot",
        **found,
        "spec": {"scope": scope},
    }


async def grant(api: Api, rule: Object, *, within: str = "") -> None:
    """Grant a rule to jo, everywhere or in a namespace."""
    name = f"r{len(await api.names(f'{RBAC}/clusterroles'))}"
    await api.post(f"{RBAC}/clusterroles", role(name, [rule], kind="ClusterRole"))
    path = f"{RBAC}/namespaces/{within}/rolebindings" if within else f"{RBAC}/clusterrolebindings"
    kind = "RoleBinding" if within else "ClusterRoleBinding"
    subjects = [{"kind": "User", "name": "jo", "apiGroup": "rbac.authorization.k8s.io"}]
    bound = binding(name, name, kind=kind, to_kind="ClusterRole", subjects=subjects)
    await api.post(path, bound)


async def prepare(api: Api) -> None:
    await api.install(definition_of(Snapshot))
    for name in ("one", "two"):
        await api.post("/api/v1/namespaces", namespace(name))
    await grant(api, SNAPSHOTS)


@pytest.mark.parametrize(
    ("scope", "rule", "within", "message"),
    [
        (NAMESPACE, EVERYTHING, "one", 'every verb on every resource in the namespace "one"'),
        (MACHINE, MACHINES, "one", '"update" of limavms.lima.rancherdesktop.io in the namespace'),
        (APP, APPS, "", '"update" of apps.app.rancherdesktop.io'),
        (INSTANCE, EVERYTHING, "", "every verb on every resource"),
    ],
)
async def test_create_and_restore_need_the_rights_of_the_scope(
    api: Api, scope: Object, rule: Object, within: str, message: str
) -> None:
    await prepare(api)
    path = path_of(Snapshot)
    saved = f"{path}/saved"
    await api.post(path, snapshot("saved", scope))  # by the administrator
    if within:
        await grant(api, rule, within="two")  # another namespace
    status = await api.refused(403, "POST", path, snapshot("mine", scope), user=JO)
    assert message in status["message"]
    change = request(restoreRequested="1")
    status = await api.refused(403, "PATCH", saved, change, user=JO, content_type=MERGE)
    assert message in status["message"]
    await api.patch(saved, {"metadata": {"labels": {"a": "b"}}}, user=JO)

    await grant(api, rule, within=within)
    await api.post(path, snapshot("mine", scope), user=JO)
    await api.patch(saved, change, user=JO)


async def test_another_name_needs_rights_there_too(api: Api) -> None:
    await prepare(api)
    await grant(api, EVERYTHING, within="one")
    path = path_of(Snapshot)
    saved = f"{path}/saved"
    await api.post(path, snapshot("saved", NAMESPACE))
    await api.post(path, snapshot("machine", MACHINE))
    change = request(restoreRequested="1", restoreAs="two")
    await api.refused(403, "PATCH", saved, change, user=JO, content_type=MERGE)
    both = snapshot("at-once", NAMESPACE, restoreRequested="1", restoreAs="two")
    await api.refused(403, "POST", path, both, user=JO)
    await api.patch(saved, request(restoreRequested="1"), user=JO)
    # The request is still pending: its target cannot be replaced.
    change = request(restoreAs="two")
    await api.refused(403, "PATCH", saved, change, user=JO, content_type=MERGE)
    await grant(api, EVERYTHING, within="two")
    await api.patch(saved, change, user=JO)

    # A machine of another name is created in the namespace of the saved one.
    await api.patch(f"{path}/machine", request(restoreRequested="1", restoreAs="vm2"), user=JO)


async def test_machine_of_another_name_needs_create(api: Api) -> None:
    await prepare(api)
    await grant(api, MACHINES, within="one")
    path = f"{path_of(Snapshot)}/machine"
    await api.post(path_of(Snapshot), snapshot("machine", MACHINE))
    change = request(restoreRequested="1", restoreAs="vm2")
    status = await api.refused(403, "PATCH", path, change, user=JO, content_type=MERGE)
    assert '"create" of limavms' in status["message"]
    await grant(api, NEW_MACHINES, within="one")
    await api.patch(path, change, user=JO)
