# SPDX-License-Identifier: Apache-2.0
"""Every row of the tables of Settled and of the conditions, reached by its cause.

No status is written here. A test declares the rows it is about with `reaches`; at its end
every one of them must have been said while it ran. The last test checks that all rows of
`rdd.controllers.app.app.reasons.REASONS` are declared.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from tests.e2e.app import settled_world as worlds
from tests.e2e.app.settled_world import LIMAVMS, VERSION, Desk, current
from tests.k3s import Behaviour

from rdd.api import names
from rdd.api.names import KUBERNETES_READY, RESTART_PENDING, SETTLED
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.app import reasons, scripts
from rdd.controllers.app.kubernetes import probe
from rdd.controllers.app.kubernetes import reconciler as kubernetes

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENGINE = "ContainerEngineReady"
KUBERNETES = {"enabled": True, "version": VERSION}
NO_KUBERNETES = {"enabled": False}
TEMPLATE = "vmType: host\n"

Row = tuple[str, str]
Test = TypeVar("Test", bound=Callable[..., Any])
DECLARED: dict[Row, list[str]] = {}
ELSEWHERE: dict[Row, str] = {
    # A process has to die for these.
    (KUBERNETES_READY, "Reconciling"): "test_app_restarts.py: test_a_daemon_that_dies_takes",
    (ENGINE, "Reconciling"): "test_app_restarts.py: test_a_daemon_that_dies_takes",
}
OF_OTHERS: set[Row] = {
    *(("Created", reason) for reason in ("Pending", "Created", "CreateFailed")),
    *(("Running", reason) for reason in ("Reconciling", "Starting", "Started", "Stopped")),
    *(("Running", reason) for reason in ("StartFailed", "StopFailed")),
    *((ENGINE, reason) for reason in ("Connected", "Stopped", "ConnectFailed", "Reconciling")),
}
"""What the controllers of machines and engines say on the App."""


def reaches(*rows: Row) -> Callable[[Test], Test]:
    """The rows a test is about: type and reason."""

    def declare(test: Test) -> Test:
        for row in rows:
            DECLARED.setdefault(row, []).append(test.__name__)
        test.rows = rows  # type: ignore[attr-defined]
        return test

    return declare


@pytest.fixture(scope="module", autouse=True)
def parts(real_part: Callable[[str], Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables"):
        real_part(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Desk]:
    """A control plane with all controllers, for all tests that can do with it."""
    with pytest.MonkeyPatch.context() as patch:
        sooner(patch)
        async with worlds.desk() as desk:
            yield desk


def sooner(patch: pytest.MonkeyPatch) -> None:
    """The pauses of the controller that asks k3s, at their tenth."""
    for name in ("FIRST_RETRY_S", "RETRY_S", "HEALTHY_S"):
        patch.setattr(kubernetes, name, getattr(kubernetes, name) / 10)
    patch.setattr(probe.health_of, "__kwdefaults__", {"timeout_s": probe.TIMEOUT_S / 10})


@pytest.fixture
def desk(shared: Desk, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """The same, with a fresh memory of what was said."""
    shared.heard.clear()
    yield shared
    check(shared, request.function)


def check(desk: Desk, test: Any) -> None:
    """Everything a test is about was said."""
    heard = {(said.type, said.reason) for said in desk.heard}
    missing = [row for row in test.rows if row not in heard]
    assert not missing, f"{missing} were not said; said was: {desk.heard}"


async def down(desk: Desk, **spec: Any) -> None:
    """Begin with an App that is stopped."""
    await desk.settled(running=False, kubernetes=NO_KUBERNETES, **spec)
    desk.heard.clear()


async def up(desk: Desk, **spec: Any) -> None:
    """Begin with an App that runs."""
    await desk.settled(running=True, kubernetes=NO_KUBERNETES, **spec)
    desk.heard.clear()


def messages(desk: Desk, type_: str, reason: str) -> list[str]:
    return [said.message for said in desk.heard if (said.type, said.reason) == (type_, reason)]


# -- the way up and down


@reaches(
    (SETTLED, "WaitingForLimaVM"),
    (SETTLED, "Starting"),
    (SETTLED, "Settled"),
    (SETTLED, "Started"),
    (SETTLED, "EngineStale"),
    (SETTLED, "Deleting"),
    (KUBERNETES_READY, "NotApplicable"),
    (ENGINE, "Connected"),
    (ENGINE, "Stopped"),
    ("Created", "Pending"),
    ("Created", "Created"),
    ("Running", "Starting"),
    ("Running", "Started"),
    ("Running", "Stopped"),
)
async def test_from_nothing_and_back(desk: Desk) -> None:
    await desk.delete()
    desk.heard.clear()
    await desk.settled(running=True)
    assert messages(desk, ENGINE, "Connected") == ["Container engine synced"]
    await desk.settled(running=False)
    # It is said to be stopped only after the mirrors and the context are gone.
    last = [said.reason for said in desk.heard if said.type == SETTLED]
    assert last.index("EngineStale") > last.index("Started")
    assert messages(desk, SETTLED, "Started") == ["LimaVM has not yet reached Stopped"]
    await desk.settled(running=True)
    await desk.delete()
    assert messages(desk, SETTLED, "Deleting") == ["App is being deleted"]


@reaches((SETTLED, "ApplyingTemplate"), (SETTLED, "Settled"))
async def test_a_change_of_the_engine_is_applied(desk: Desk) -> None:
    await up(desk, registries={"insecure": []})
    await desk.settled(registries={"insecure": ["reg.example.com:5000"]})
    await desk.settled(registries={"insecure": []})


@reaches((SETTLED, "Settled"), (ENGINE, "Connected"))
async def test_containerd_settles_as_well(desk: Desk) -> None:
    await down(desk)
    await desk.settled(running=True, containerEngine={"name": "containerd"})
    await desk.settled(running=False, containerEngine={"name": "moby"})


# -- what goes wrong with the machine


@reaches((SETTLED, "Reconciling"), ("Running", "Reconciling"), (SETTLED, "Settled"))
async def test_a_machine_whose_agent_was_killed_is_taken_over(desk: Desk) -> None:
    await up(desk)
    before = messages(desk, "Running", "Starting")
    (engine,) = desk.pids("dockerd")
    os.kill(desk.agent(), signal.SIGKILL)
    await desk.said(SETTLED, "Reconciling")
    await desk.settled()
    assert desk.pids("dockerd") == [engine]
    assert messages(desk, "Running", "Starting") == before


@reaches((SETTLED, "ConnectFailed"), (ENGINE, "ConnectFailed"), (SETTLED, "Settled"))
async def test_an_engine_that_was_killed_is_connected_to_again(desk: Desk) -> None:
    await up(desk)
    agent = desk.agent()
    os.kill(agent, signal.SIGSTOP)  # it would bring the engine back at once
    try:
        (engine,) = desk.pids("dockerd")
        os.kill(engine, signal.SIGKILL)
        assert "docker.sock" in await desk.said(ENGINE, "ConnectFailed")
    finally:
        os.kill(agent, signal.SIGCONT)
    await desk.until(
        "the end of the machine", lambda obj: desk.pids("dockerd") not in ([], [engine])
    )
    await desk.settled()


@reaches((SETTLED, "StartFailed"), ("Running", "StartFailed"))
async def test_a_socket_of_somebody_else_is_not_taken(desk: Desk) -> None:
    await down(desk)
    path = desk.instance.docker_socket
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        await desk.set(running=True)
        assert str(path) in await desk.said(SETTLED, "StartFailed")
        assert path.is_socket()
    path.unlink()
    await desk.settled()


@reaches((SETTLED, "StartFailed"), ("Running", "StartFailed"))
async def test_settings_that_dockerd_refuses_are_shown_in_its_words(desk: Desk) -> None:
    await down(desk)
    mirror = {"registry": "docker.io", "endpoints": ["http://127.0.0.1:5999/?a=b"]}
    await desk.set(running=True, registries={"mirrors": [mirror]})
    message = await desk.said(SETTLED, "StartFailed")
    assert "dockerd ended with exit status 1" in message
    assert "mirror" in message
    await desk.settled(registries=None)


@reaches((SETTLED, "StopFailed"), ("Running", "StopFailed"))
async def test_a_stop_that_is_refused_is_told(desk: Desk) -> None:
    await up(desk)
    await desk.annotate(names.STOP_MODE, "suspend")
    await desk.set(running=False)
    assert "cannot suspend" in await desk.said(SETTLED, "StopFailed")
    await desk.annotate(names.STOP_MODE, None)
    await desk.settled()


@reaches((RESTART_PENDING, "TemplateChanged"), (SETTLED, "Settled"))
async def test_another_version_of_the_template_waits_for_a_restart(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await up(desk)
    (engine,) = desk.pids("dockerd")
    monkeypatch.setattr(scripts, "SETTINGS", "/etc/rdd/other")  # as an upgrade would
    await desk.settled(virtualMachine={"cpus": 1})  # means nothing to the type host
    await desk.said(RESTART_PENDING, "TemplateChanged", "True")
    assert desk.pids("dockerd") == [engine]
    await desk.settled(running=False)
    monkeypatch.undo()
    await desk.settled(virtualMachine={"cpus": 2})


# -- what is in the way of a machine


@reaches((SETTLED, "CreateFailed"), ("Created", "CreateFailed"))
async def test_a_file_in_the_place_of_the_machines(desk: Desk) -> None:
    await desk.delete()
    home = desk.instance.lima_home
    home.mkdir(parents=True, exist_ok=True)
    home.rename(home.with_name("aside"))
    home.write_text("in the way")
    await desk.set(running=False)
    assert str(home) in await desk.said(SETTLED, "CreateFailed")
    home.unlink()
    home.with_name("aside").rename(home)
    await desk.settled()


def machine(namespace: str) -> Object:
    return {
        "metadata": {"name": "rd", "namespace": namespace},
        "spec": {"running": False, "templateRef": {"name": "source", "namespace": "default"}},
    }


@reaches((SETTLED, "NotOurs"), (SETTLED, "Refused"))
async def test_machines_of_the_user_stay_the_users(desk: Desk) -> None:
    await desk.delete()
    source = {
        "metadata": {"name": "source", "namespace": "default"},
        "data": {"template": TEMPLATE},
    }
    await desk.client.create(CONFIG_MAPS, source)
    await desk.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await desk.client.create(LIMAVMS, machine("default"))
    await desk.set(running=True)
    message = await desk.said(SETTLED, "NotOurs")
    assert message == 'LimaVM "default/rd" does not belong to this App; delete it to continue'
    await desk.delete()
    await desk.client.delete(LIMAVMS, "rd", namespace="default")  # it is still there
    await desk.gone(LIMAVMS, "rd", "default")
    await desk.client.create(LIMAVMS, machine("other"))
    await desk.set(running=True)
    message = await desk.said(SETTLED, "Refused")
    assert 'LimaVM name "rd" is already used in namespace "other"' in message
    await desk.delete()
    await desk.client.delete(LIMAVMS, "rd", namespace="other")
    await desk.gone(LIMAVMS, "rd", "other")
    for name, reason in (("rd", "NotOurs"), ("rd-template", "Refused")):
        mine = {"metadata": {"name": name, "namespace": "default"}, "data": {"mine": "yes"}}
        await desk.client.create(CONFIG_MAPS, mine)
        await desk.set(running=True)
        assert name in await desk.said(SETTLED, reason)
        await desk.delete()
        found = await desk.client.get(CONFIG_MAPS, name, namespace="default")
        assert found["data"] == {"mine": "yes"}
        await desk.client.delete(CONFIG_MAPS, name, namespace="default")
    await desk.client.delete(CONFIG_MAPS, "source", namespace="default")


@reaches((SETTLED, "NamespaceTerminating"), (SETTLED, "Settled"))
async def test_waits_for_a_terminating_namespace(desk: Desk) -> None:
    await desk.delete()
    held = {"metadata": {"name": "held", "namespace": "doomed", "finalizers": ["example.com/x"]}}
    await desk.client.create(NAMESPACES, {"metadata": {"name": "doomed"}})
    await desk.client.create(CONFIG_MAPS, held)
    await desk.client.delete(NAMESPACES, "doomed")
    await desk.set(running=False, namespace="doomed")
    message = await desk.said(SETTLED, "NamespaceTerminating")
    assert message == 'Namespace "doomed" is being deleted'
    patch = {"metadata": {"finalizers": None}}
    await desk.client.patch(CONFIG_MAPS, "held", patch, namespace="doomed")
    await desk.settled()
    await desk.delete()
    await desk.gone(NAMESPACES, "doomed")


@reaches((SETTLED, "NoDriver"))
async def test_nothing_that_could_run_containers(request: pytest.FixtureRequest) -> None:
    async with worlds.desk(PATH="/nonexistent") as desk:
        await desk.set(running=True)
        message = await desk.said(SETTLED, "NoDriver")
        lines = message.splitlines()
        assert lines[0] == "Nothing can run containers here:"
        assert [line.split()[0] for line in lines[1:]] == ["lima", "host", "qemu"]
        assert all("; to change that: " in line for line in lines[1:])
        check(desk, request.function)


# -- Kubernetes


@reaches(
    (KUBERNETES_READY, "NotInstalled"),
    (KUBERNETES_READY, "NotRunning"),
    (KUBERNETES_READY, "Probing"),
    (KUBERNETES_READY, "MergeFailed"),
    (KUBERNETES_READY, "WaitingForNode"),
    (KUBERNETES_READY, "Ready"),
    (SETTLED, "NotInstalled"),
    (SETTLED, "Probing"),
    (SETTLED, "MergeFailed"),
    (SETTLED, "WaitingForNode"),
    (SETTLED, "Settled"),
)
async def test_a_cluster_that_comes_up_in_steps(desk: Desk) -> None:
    await down(desk)
    desk.remove_k3s()
    await desk.set(running=True, kubernetes=KUBERNETES)
    assert "k3s v1.33.7+k3s3 is not installed" in await desk.said(SETTLED, "NotInstalled")
    await desk.settled(running=False)
    await desk.said(KUBERNETES_READY, "NotRunning")

    desk.install_k3s()
    Behaviour(nodes="none", health=500).write(desk.instance.k3s_config)
    mine = "clusters: [\n"
    desk.kube_config.parent.mkdir(exist_ok=True)
    desk.kube_config.write_text(mine)
    await desk.set(running=True)
    await desk.said(SETTLED, "Probing")
    Behaviour(nodes="none").write(desk.instance.k3s_config)
    message = await desk.said(SETTLED, "MergeFailed")
    assert message.startswith("Failed to publish Kubernetes context: ")
    assert desk.kube_config.read_text() == mine  # as unreadable as it was
    desk.kube_config.unlink()
    assert await desk.said(SETTLED, "WaitingForNode") == "No node has registered yet"
    Behaviour(nodes="unready").write(desk.instance.k3s_config)
    await desk.until(
        "another message",
        lambda obj: current(obj, KUBERNETES_READY).get("message") == "No node is Ready yet",
    )
    Behaviour().write(desk.instance.k3s_config)
    await desk.settled()

    Behaviour(health=503).write(desk.instance.k3s_config)
    await desk.said(SETTLED, "Probing")
    Behaviour().write(desk.instance.k3s_config)
    await desk.settled()
    Behaviour(is_silent=True).write(desk.instance.k3s_config)
    await desk.said(SETTLED, "Probing")  # at the third attempt without an answer
    Behaviour().write(desk.instance.k3s_config)
    await desk.settled()
    await desk.settled(running=False, kubernetes=NO_KUBERNETES)


# -- controllers that do not run


@reaches(
    (SETTLED, "Stopped"),
    (SETTLED, "Settled"),
    (SETTLED, "WaitingForEngine"),
    (SETTLED, "WaitingForKubernetes"),
    (SETTLED, "EngineStale"),
    (SETTLED, "KubernetesStale"),
    (KUBERNETES_READY, "Ready"),
)
async def test_controllers_that_do_not_run(request: pytest.FixtureRequest) -> None:
    with worlds.short_home() as home:
        home.mkdir()
        desk = Desk(home)
        desk.install_k3s()
        try:
            await without_controllers(desk)
            check(desk, request.function)
        finally:
            await desk.clean()


async def without_controllers(desk: Desk) -> None:
    async with desk.open("*,-engine,-kubernetes"):
        # Nobody looks after them, so nobody waits for them.
        await desk.settled(running=True, kubernetes=KUBERNETES)
        assert current(await desk.app(), ENGINE) == {}
        await desk.hide_controllers()
        assert await desk.said(SETTLED, "WaitingForEngine") == (
            "Waiting for container engine condition"
        )
        await desk.set(running=False)
        await desk.said(SETTLED, "EngineStale")
    async with desk.open("*,-limavm,-engine,-kubernetes"):
        await desk.set(running=True)
        assert await desk.said(SETTLED, "Stopped") == "LimaVM has not yet reached Started"
    async with desk.open("*,-kubernetes"):
        await desk.settled()
        await desk.hide_controllers()
        assert await desk.said(SETTLED, "WaitingForKubernetes") == (
            "Waiting for Kubernetes condition"
        )
    async with desk.open("*"):
        await desk.settled()
        await desk.said(KUBERNETES_READY, "Ready", "True")
    async with desk.open("*,-engine"):
        # The engine has spoken of an earlier generation only.
        await desk.said("Running", "Started", "True")
        await desk.hide_controllers()
        await desk.set(virtualMachine={"cpus": 1})
        message = await desk.said(SETTLED, "EngineStale")
        assert message == "Container engine needs to be synchronized"
    async with desk.open("*,-kubernetes"):
        await desk.said("Running", "Started", "True")
        await desk.hide_controllers()
        await desk.set(virtualMachine={"cpus": 2})
        message = await desk.said(SETTLED, "KubernetesStale")
        assert message == "Kubernetes context needs to be synchronized"
        await desk.set(running=False)
        await desk.said("Running", "Stopped")
        await desk.said(SETTLED, "KubernetesStale")


async def test_every_row_is_reached() -> None:
    rows = {(row.type, row.reason) for row in reasons.REASONS} | OF_OTHERS
    assert rows - DECLARED.keys() - ELSEWHERE.keys() == set()
    for row, place in ELSEWHERE.items():
        file, _, name = place.partition(": ")
        assert f"def {name}" in (Path(__file__).parent / file).read_text(), row
