# SPDX-License-Identifier: Apache-2.0
"""Names that scripts and other programs refer to: webhooks, endpoints, definitions."""

from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from rdd.controllers import catalog
from rdd.controllers.environment import ControllerEnvironment
from rdd.instance import Instance
from rdd.runtime import Context, Controller, Webhook

LIMA, APP = "lima.rancherdesktop.io", "app.rancherdesktop.io"
CONTAINERS, RDD = "containers.rancherdesktop.io", "rdd.rancherdesktop.io"

# Configuration, webhook, type, operations, resource and labels.
WEBHOOKS: dict[str, list[tuple[str, str, str, str, str, dict[str, str]]]] = {
    "notary": [("notary-validator", f"notary.{RDD}", "V", "CREATE UPDATE", "notaries", {})],
    "app": [
        ("app-defaulter", f"app-defaulter.{APP}", "M", "CREATE UPDATE", "apps", {}),
        ("app-validator", f"app-validator.{APP}", "V", "CREATE UPDATE", "apps", {}),
    ],
    "k3s-versions": [
        (
            "k3s-versions-validator",
            f"k3s-versions-validator.{APP}",
            "V",
            "DELETE",
            "configmaps",
            {
                "app.kubernetes.io/name": "rdd-k3s-versions",
                "app.kubernetes.io/component": "k3s-versions",
                "app.kubernetes.io/managed-by": "rdd-k3s-versions",
            },
        )
    ],
    "container": [
        (
            "container-mutating",
            f"container-mutating.{CONTAINERS}",
            "V",
            "CREATE UPDATE",
            "containers",
            {},
        )
    ],
    "containernamespace": [
        (
            "container-namespace-deleting",
            f"container-namespace-deleting.{CONTAINERS}",
            "V",
            "DELETE",
            "containernamespaces",
            {},
        )
    ],
    "limavm": [
        ("limavm-defaulter", f"limavm-defaulter.{LIMA}", "M", "CREATE", "limavms", {}),
        ("limavm-validator", f"limavm-validator.{LIMA}", "V", "DELETE", "limavms", {}),
        (
            "limavm-configmap-validator",
            f"limavm-configmap-validator.{LIMA}",
            "V",
            "CREATE UPDATE DELETE",
            "configmaps",
            {f"{LIMA}/template-configmap": "true"},
        ),
    ],
    "mock": [
        (
            "mock-namespace-no-delete",
            "mock-namespace-no-delete.mock.rancherdesktop.io",
            "V",
            "DELETE",
            "namespaces",
            {"kubernetes.io/metadata.name": "rdd-mocks"},
        )
    ],
}
PASSTHROUGHS = {"demo": {"hello", "websocket"}, "engine": {"logs"}, "mock": {"logs"}}
DEFINITIONS = {
    "notary": {f"notaries.{RDD}"},
    "configmapreplicaset": {f"configmapreplicasets.{RDD}"},
    "hostinfo": {f"hostinfos.{RDD}"},
    "resource": {f"resources.{RDD}", f"checkouts.{RDD}"},
    "urlmonitor": {f"urlmonitors.{RDD}"},
    "app": {f"apps.{APP}"},
    "demo": {f"demos.{APP}"},
    "limavm": {f"limavms.{LIMA}"},
    "snapshot": {f"snapshots.{RDD}"},
    "container": {f"containers.{CONTAINERS}", f"containercreaterequests.{CONTAINERS}"},
    "containernamespace": {f"containernamespaces.{CONTAINERS}"},
    "image": {
        f"{plural}.{CONTAINERS}"
        for plural in (
            "images",
            "imagepullrequests",
            "imagepushrequests",
            "imagescanrequests",
            "imagebuildrequests",
            "imagetagrequests",
        )
    },
    "network": {f"networks.{CONTAINERS}", f"networkcreaterequests.{CONTAINERS}"},
    "volume": {f"volumes.{CONTAINERS}", f"volumecreaterequests.{CONTAINERS}"},
}


@pytest.fixture
def context() -> Context:
    """A context without a server: declaring webhooks reads and writes nothing."""
    return cast(Context, MagicMock())


def made(name: str, home: Path) -> Controller:
    env = ControllerEnvironment(
        instance=Instance("2", home),
        home=home,
        environment={},
        agent_command=("agent",),
        version="v0",
    )
    (controller,) = catalog.make_controllers([name], env)
    return controller


def described(webhook: Webhook) -> tuple[str, str, str, set[str], str, Any]:
    (hook,) = webhook.configuration("https://localhost/x", "")["webhooks"]
    (rule,) = hook["rules"]
    assert (hook["failurePolicy"], rule["scope"]) == ("Fail", "*")
    assert hook["sideEffects"] in ("None", "NoneOnDryRun")
    labels = (hook.get("objectSelector") or {}).get("matchLabels") or {}
    kind = webhook.type[0].upper()
    return webhook.name, hook["name"], kind, set(rule["operations"]), *rule["resources"], labels


@pytest.mark.parametrize("name", WEBHOOKS)
def test_webhooks_have_their_published_names(tmp_path: Path, context: Context, name: str) -> None:
    found = {hook.name: described(hook) for hook in made(name, tmp_path).webhooks_with(context)}
    for config, webhook, kind, operations, resource, labels in WEBHOOKS[name]:
        *names, has_operations, has_resource, has_labels = found[config]
        assert names == [config, webhook, kind]
        assert has_operations >= set(operations.split())
        assert (has_resource, has_labels) == (resource, labels)


def test_defaulter_of_limavms_declares_no_side_effects_on_dry_run(
    tmp_path: Path, context: Context
) -> None:
    effects = {
        hook.name: hook.side_effects for hook in made("limavm", tmp_path).webhooks_with(context)
    }
    assert effects["limavm-defaulter"] == "NoneOnDryRun"


@pytest.mark.parametrize("name", catalog.CONTROLLERS)
def test_endpoints_and_definitions_have_their_published_names(
    tmp_path: Path, context: Context, name: str
) -> None:
    controller = made(name, tmp_path)
    assert set(controller.passthroughs_with(context)) >= PASSTHROUGHS.get(name, set())
    found = {definition["metadata"]["name"] for definition in controller.definitions}
    assert found >= DEFINITIONS.get(name, set())
