# SPDX-License-Identifier: Apache-2.0
"""KubernetesReady, with a fake k3s and the files of a user."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.controllers.app.app_world import (
    APPS,
    FakeMachines,
    app_object,
    enabled,
    is_settled,
    patch_app,
    reported,
    works,
)
from tests.controllers.controller_world import controller_environment, managed
from tests.k3s import Cluster, k3s, node
from tests.runtime.runtime_world import World, open_world

from rdd.controllers.app.app import app
from rdd.controllers.app.k3s_versions_table import RELEASES
from rdd.controllers.app.kubernetes import kubernetes, probe, reconciler
from rdd.controllers.app.kubernetes.probe import Health
from rdd.controllers.environment import ControllerEnvironment
from rdd.host.contexts.kube_contexts import current
from rdd.runtime import find_condition
from rdd.vm.drivers.kubernetes_files import program_of

NAME = "rancher-desktop-7"
MINE = """\
# mine
apiVersion: v1
kind: Config
clusters:
- name: work
  cluster: {server: "http://127.0.0.1:1"}
contexts:
- name: work
  context: {cluster: work, user: me}
users: []
current-context: work
"""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        await enabled(opened, "kubernetes")
        yield opened


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten delays and timeouts."""
    monkeypatch.setattr(reconciler, "RETRY_S", 0.05)
    monkeypatch.setattr(reconciler, "HEALTHY_S", 0.1)
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(probe.health_of, "__kwdefaults__", {"timeout_s": 0.3})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def environment_of(home: Path, **environment: str) -> ControllerEnvironment:
    return replace(controller_environment(home), environment={"HOME": str(home), **environment})


def config(home: Path) -> Path:
    return home / ".kube" / "config"


@asynccontextmanager
async def running(
    world: World, home: Path, machines: FakeMachines | None = None, **environment: str
) -> AsyncIterator[FakeMachines]:
    machines = machines or FakeMachines()
    env = environment_of(home, **environment)
    for release in RELEASES:  # the guest installs it from there
        program = program_of(release, env.environment)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    controllers = (app(env, probe=works), machines.controller(), kubernetes(env))
    async with managed(world, *controllers):
        yield machines


def cluster_in(home: Path) -> Any:
    instance = controller_environment(home).instance
    return k3s(instance.k3s_config, directory=home / "k3s")


async def until_reported(world: World, reason: str, message: str = "") -> dict[str, Any]:
    async with asyncio.timeout(120):
        while True:
            obj = await world.client.get(APPS, "app")
            conditions = (obj.get("status") or {}).get("conditions")
            found = find_condition(conditions, "KubernetesReady") or {}
            is_current = found.get("observedGeneration") == obj["metadata"]["generation"]
            if found.get("reason") == reason and is_current and message in found["message"]:
                return obj
            await asyncio.sleep(0.01)


async def settled(world: World) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while True:
            if is_settled(obj := await world.client.get(APPS, "app")):
                return obj
            await asyncio.sleep(0.01)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - a file, a counter: no event exists
            await asyncio.sleep(0.005)


async def started(world: World) -> None:
    await world.client.create(
        APPS,
        app_object(running=True, kubernetes={"enabled": True}, virtualMachine={"type": "qemu"}),
    )


async def test_healthy_cluster_is_ready_and_its_context_published(world: World, home: Path) -> None:
    async with cluster_in(home), running(world, home):
        await started(world)
        await settled(world)
        merged = yaml.safe_load(config(home).read_text())
        assert [item["name"] for item in merged["clusters"]] == [NAME]
        assert merged["current-context"] == NAME
        own = controller_environment(home).instance.kube_config
        assert yaml.safe_load(own.read_text())["current-context"] == NAME
        assert own.stat().st_mode & 0o777 == 0o600


async def test_contexts_are_removed_before_a_stop_is_settled(world: World, home: Path) -> None:
    async with cluster_in(home), running(world, home):
        config(home).parent.mkdir(parents=True)
        config(home).write_text(MINE)
        await started(world)
        await settled(world)
        assert current([config(home)]) == NAME  # work does not respond
        await patch_app(world, running=False)
        obj = await settled(world)
        assert reported(obj, "KubernetesReady") == ("False", "NotRunning")
        assert config(home).read_text() == MINE.replace(
            "current-context: work", 'current-context: ""'
        )
        assert not controller_environment(home).instance.kube_config.exists()


async def test_disabling_removes_the_contexts(world: World, home: Path) -> None:
    async with cluster_in(home), running(world, home):
        await started(world)
        await until_reported(world, "Ready")
        await patch_app(world, kubernetes={"enabled": False})
        await until_reported(world, "NotApplicable", "Kubernetes is not enabled")
        assert NAME not in config(home).read_text()


async def test_stopped_machine_creates_no_files(world: World, home: Path) -> None:
    async with running(world, home):
        await world.client.create(
            APPS, app_object(kubernetes={"enabled": True}, virtualMachine={"type": "qemu"})
        )
        await until_reported(world, "NotRunning", "VM is not running")
        await settled(world)
    assert not (home / ".kube").exists()


async def test_deleted_app_leaves_no_context(world: World, home: Path) -> None:
    async with cluster_in(home), running(world, home):
        await started(world)
        await until_reported(world, "Ready")
        await world.client.delete(APPS, "app")
        await until(lambda: NAME not in config(home).read_text())


async def test_context_is_removed_with_the_daemon(world: World, home: Path) -> None:
    async with cluster_in(home):
        async with running(world, home):
            await started(world)
            await until_reported(world, "Ready")
            assert NAME in config(home).read_text()
        assert NAME not in config(home).read_text()


# -- probing


async def test_waits_for_the_api_then_for_a_node(world: World, home: Path) -> None:
    async with running(world, home):
        await started(world)
        await until_reported(world, "Probing", "Waiting for k3s API server")
        async with cluster_in(home) as cluster:
            cluster.nodes = []
            await until_reported(world, "WaitingForNode", "No node has registered yet")
            cluster.nodes = [node(is_ready=False)]
            await until_reported(world, "WaitingForNode", "No node is Ready yet")
            cluster.nodes = [node()]
            await until_reported(world, "Ready")
            cluster.nodes = []  # nodes matter only until ready
            seen = cluster.probes
            await probed(cluster, seen + 2)
            await until_reported(world, "Ready")


async def test_error_response_ends_ready_at_once(world: World, home: Path) -> None:
    async with cluster_in(home) as cluster, running(world, home):
        await started(world)
        await until_reported(world, "Ready")
        cluster.health = 500
        await until_reported(world, "Probing")
        cluster.health = 200
        await until_reported(world, "Ready")


async def test_two_timeouts_are_tolerated(world: World, home: Path) -> None:
    async with cluster_in(home) as cluster, running(world, home):
        await started(world)
        await until_reported(world, "Ready")
        cluster.may_respond.clear()
        seen = cluster.probes
        await probed(cluster, seen + 2)
        obj = await world.client.get(APPS, "app")
        assert reported(obj, "KubernetesReady") == ("True", "Ready")
        await until_reported(world, "Probing")
        # A fourth probe may have started before the condition was observed.
        assert cluster.probes >= seen + 3
        cluster.may_respond.set()
        await until_reported(world, "Ready")


async def probed(cluster: Cluster, count: int) -> None:
    await until(lambda: cluster.probes >= count)


async def test_outcomes_of_probes(tmp_path: Path) -> None:
    from rdd.client.kubeconfig import ConnectionConfig, load

    path = tmp_path / "k3s.yaml"
    async with k3s(path, directory=tmp_path / "a") as cluster:
        good = load(path)
        assert await probe.health_of(good) is Health.HEALTHY
        cluster.health = 503
        assert await probe.health_of(good) is Health.UNHEALTHY
        cluster.may_respond.clear()
        assert await probe.health_of(good, timeout_s=0.1) is Health.AMBIGUOUS
        cluster.may_respond.set()
        other = tmp_path / "other.yaml"
        async with k3s(other, directory=tmp_path / "b"):
            # Another server on the port: its certificate is from another authority.
            foreign = good._replace(server=load(other).server)
            assert await probe.health_of(foreign) is Health.UNREACHABLE
        bad = ConnectionConfig(good.server, authority="no certificate")
        assert await probe.health_of(bad) is Health.UNREACHABLE
    assert await probe.health_of(good) is Health.UNREACHABLE
    with socket.socket() as silent_socket:
        silent_socket.bind(("127.0.0.1", 0))
        silent_socket.listen()
        silent = good._replace(server=f"https://127.0.0.1:{silent_socket.getsockname()[1]}")
        assert await probe.health_of(silent, timeout_s=0.1) is Health.AMBIGUOUS


# -- the files of the user


async def test_malformed_kubeconfig_is_kept_and_reported_once(
    world: World, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rdd.controllers.kubernetes")
    config(home).parent.mkdir(parents=True)
    config(home).write_text("{ this is no kubeconfig")
    async with cluster_in(home) as cluster, running(world, home):
        await started(world)
        obj = await until_reported(world, "MergeFailed")
        found = find_condition(obj["status"]["conditions"], "KubernetesReady")
        assert found is not None
        assert found["message"].startswith("Failed to publish Kubernetes context: ")
        assert "is not YAML and was not changed" in found["message"]
        await probed(cluster, cluster.probes + 3)
        assert len([r for r in caplog.records if "is not YAML" in r.message]) == 1
        assert config(home).read_text() == "{ this is no kubeconfig"
        config(home).write_text(MINE)
        await until_reported(world, "Ready")
        assert NAME in config(home).read_text()


async def test_healthy_context_of_the_user_stays_current(world: World, home: Path) -> None:
    theirs = home / "theirs.yaml"
    async with (
        k3s(theirs, directory=home / "theirs"),
        cluster_in(home),
        running(world, home, KUBECONFIG=str(theirs)),
    ):
        await started(world)
        await until_reported(world, "Ready")
        assert current([theirs]) == "default"
        assert NAME in theirs.read_text()


async def test_context_that_dies_later_stays_current(world: World, home: Path) -> None:
    theirs = home / "theirs.yaml"
    async with cluster_in(home) as cluster, running(world, home, KUBECONFIG=str(theirs)):
        async with k3s(theirs, directory=home / "theirs"):
            await started(world)
            await until_reported(world, "Ready")
        await probed(cluster, cluster.probes + 3)
        assert current([theirs]) == "default"


async def test_removed_entry_is_not_restored(world: World, home: Path) -> None:
    async with cluster_in(home) as cluster, running(world, home):
        await started(world)
        await until_reported(world, "Ready")
        config(home).write_text(MINE)
        await probed(cluster, cluster.probes + 3)
        assert config(home).read_text() == MINE


async def test_multiple_files_follow_the_rules_of_kubectl(world: World, home: Path) -> None:
    first, second = home / "a", home / "b"
    home.mkdir()  # noqa: ASYNC240
    second.write_text(MINE)
    listed = os.pathsep.join([str(first), str(second)])
    async with cluster_in(home), running(world, home, KUBECONFIG=listed):
        await started(world)
        await until_reported(world, "Ready")
        assert not first.exists()
        assert current([first, second]) == NAME


async def test_generation_is_confirmed_after_the_template_is_applied(
    world: World, home: Path
) -> None:
    async with cluster_in(home) as cluster, running(world, home) as machines:
        await started(world)
        await settled(world)
        machines.applies = False
        await patch_app(world, kubernetes={"version": "1.33.7"})
        await probed(cluster, cluster.probes + 3)
        obj = await world.client.get(APPS, "app")
        found = find_condition(obj["status"]["conditions"], "KubernetesReady")
        assert found is not None
        assert found["observedGeneration"] < obj["metadata"]["generation"]
        machines.applies = True
        machines.changed()
        await settled(world)
