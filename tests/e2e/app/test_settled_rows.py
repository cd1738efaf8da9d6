# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of reasons of Settled and the other conditions, reached by its cause.

No test writes a status. A test declares its rows with `reaches`; at its end each of them must have
been observed. The last test checks that all rows of `rdd.controllers.app.app.reasons.REASONS` are
declared.
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
from tests.e2e.app.settled_world import LIMAVMS, VERSION, Desktop, current
from tests.k3s import Behaviour

from rdd.api import names
from rdd.api.names import DISK_PRESSURE, KUBERNETES_READY, RESTART_PENDING, SETTLED
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
    (SETTLED, "Fetching"): "test_app_fetches_k3s.py: test_program_is_fetched_verified_and_run",
    (
        SETTLED,
        "FetchFailed",
    ): "test_app_fetches_k3s.py: test_failure_leaves_the_engine_running_and_names_the_cause",
    (SETTLED, "NotAllowed"): "../service/test_profile_attacks.py: "
    "test_locks_hold_whatever_is_tried",
    # They need a small disk.
    (DISK_PRESSURE, "DiskLow"): "../service/test_service_doctor.py: "
    "test_disk_pressure_is_a_condition_of_the_app",
    (DISK_PRESSURE, "DiskFull"): "../service/test_service_doctor.py: "
    "test_disk_pressure_is_a_condition_of_the_app",
    # They need a guest with a small disk; its events are recorded.
    (DISK_PRESSURE, "GuestDiskLow"): "../../controllers/app/test_app_diagnostics.py: "
    "test_disk_of_a_guest_is_checked",
    (DISK_PRESSURE, "GuestDiskFull"): "../../controllers/app/test_app_diagnostics.py: "
    "test_disk_of_a_guest_is_checked",
    # They need a daemon that crashes.
    (KUBERNETES_READY, "Reconciling"): "test_app_restarts.py: test_a_crash_of_the_daemon",
    (ENGINE, "Reconciling"): "test_app_restarts.py: test_a_crash_of_the_daemon",
}
OF_OTHERS: set[Row] = {
    *(("Created", reason) for reason in ("Pending", "Created", "CreateFailed")),
    *(("Running", reason) for reason in ("Reconciling", "Starting", "Started", "Stopped")),
    *(("Running", reason) for reason in ("StartFailed", "StopFailed")),
    *((ENGINE, reason) for reason in ("Connected", "Stopped", "ConnectFailed", "Reconciling")),
}
"""Rows that the controllers of machines and engines write to the App."""


def reaches(*rows: Row) -> Callable[[Test], Test]:
    """Declare the rows, type and reason, that a test reaches."""

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
async def shared() -> AsyncIterator[Desktop]:
    """Run a control plane with all controllers, shared by most tests."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_delays(patch)
        async with worlds.desktop() as desktop:
            yield desktop


def shorten_delays(patch: pytest.MonkeyPatch) -> None:
    """Divide the delays of the controller that probes k3s by ten."""
    for name in ("FIRST_RETRY_S", "RETRY_S", "HEALTHY_S"):
        patch.setattr(kubernetes, name, getattr(kubernetes, name) / 10)
    patch.setattr(probe.health_of, "__kwdefaults__", {"timeout_s": probe.TIMEOUT_S / 10})


@pytest.fixture
def desktop(shared: Desktop, request: pytest.FixtureRequest) -> Iterator[Desktop]:
    """Return the shared desktop; check afterwards that the test has reached its rows."""
    shared.observed.clear()
    yield shared
    check(shared, request.function)


def check(desktop: Desktop, test: Any) -> None:
    observed = {(found.type, found.reason) for found in desktop.observed}
    missing = [row for row in test.rows if row not in observed]
    assert not missing, f"{missing} were not reached; observed: {desktop.observed}"


async def begin_stopped(desktop: Desktop, **spec: Any) -> None:
    await desktop.settled(running=False, kubernetes=NO_KUBERNETES, **spec)
    desktop.observed.clear()


async def begin_running(desktop: Desktop, **spec: Any) -> None:
    await desktop.settled(running=True, kubernetes=NO_KUBERNETES, **spec)
    desktop.observed.clear()


def messages(desktop: Desktop, type_: str, reason: str) -> list[str]:
    return [
        found.message for found in desktop.observed if (found.type, found.reason) == (type_, reason)
    ]


# -- start and stop


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
async def test_create_stop_start_and_delete(desktop: Desktop) -> None:
    await desktop.delete()
    desktop.observed.clear()
    await desktop.settled(running=True)
    assert messages(desktop, ENGINE, "Connected") == ["Container engine synced"]
    await desktop.settled(running=False)
    # It is stopped only after the mirrors and the context are deleted.
    last = [found.reason for found in desktop.observed if found.type == SETTLED]
    assert last.index("EngineStale") > last.index("Started")
    assert messages(desktop, SETTLED, "Started") == ["LimaVM has not yet reached Stopped"]
    await desktop.settled(running=True)
    await desktop.delete()
    assert messages(desktop, SETTLED, "Deleting") == ["App is being deleted"]


@reaches((SETTLED, "ApplyingTemplate"), (SETTLED, "Settled"))
async def test_a_change_of_the_engine_is_applied(desktop: Desktop) -> None:
    await begin_running(desktop, registries={"insecure": []})
    await desktop.settled(registries={"insecure": ["reg.example.com:5000"]})
    await desktop.settled(registries={"insecure": []})


@reaches((SETTLED, "Settled"), (ENGINE, "Connected"))
async def test_containerd_settles_as_well(desktop: Desktop) -> None:
    await begin_stopped(desktop)
    await desktop.settled(running=True, containerEngine={"name": "containerd"})
    await desktop.settled(running=False, containerEngine={"name": "moby"})


# -- failures of the machine


@reaches((SETTLED, "Reconciling"), ("Running", "Reconciling"), (SETTLED, "Settled"))
async def test_a_machine_whose_agent_was_killed_is_adopted(desktop: Desktop) -> None:
    await begin_running(desktop)
    before = messages(desktop, "Running", "Starting")
    (engine,) = desktop.pids("dockerd")
    os.kill(desktop.agent(), signal.SIGKILL)
    await desktop.reached(SETTLED, "Reconciling")
    await desktop.settled()
    assert desktop.pids("dockerd") == [engine]
    assert messages(desktop, "Running", "Starting") == before


@reaches((SETTLED, "ConnectFailed"), (ENGINE, "ConnectFailed"), (SETTLED, "Settled"))
async def test_the_engine_reconnects_after_it_was_killed(desktop: Desktop) -> None:
    await begin_running(desktop)
    agent = desktop.agent()
    os.kill(agent, signal.SIGSTOP)  # it would restart the engine at once
    try:
        (engine,) = desktop.pids("dockerd")
        os.kill(engine, signal.SIGKILL)
        assert "docker.sock" in await desktop.reached(ENGINE, "ConnectFailed")
    finally:
        os.kill(agent, signal.SIGCONT)
    await desktop.until("another engine", lambda obj: desktop.pids("dockerd") not in ([], [engine]))
    await desktop.settled()


@reaches((SETTLED, "StartFailed"), ("Running", "StartFailed"))
async def test_a_socket_of_another_program_is_kept(desktop: Desktop) -> None:
    await begin_stopped(desktop)
    path = desktop.instance.docker_socket
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        await desktop.set(running=True)
        assert str(path) in await desktop.reached(SETTLED, "StartFailed")
        assert path.is_socket()
    path.unlink()
    await desktop.settled()


@reaches((SETTLED, "StartFailed"), ("Running", "StartFailed"))
async def test_settings_that_dockerd_rejects_are_reported_with_its_message(
    desktop: Desktop,
) -> None:
    await begin_stopped(desktop)
    mirror = {"registry": "docker.io", "endpoints": ["http://127.0.0.1:5999/?a=b"]}
    await desktop.set(running=True, registries={"mirrors": [mirror]})
    message = await desktop.reached(SETTLED, "StartFailed")
    assert "dockerd ended with exit status 1" in message
    assert "mirror" in message
    await desktop.settled(registries=None)


@reaches((SETTLED, "StopFailed"), ("Running", "StopFailed"))
async def test_a_rejected_stop_is_reported(desktop: Desktop) -> None:
    await begin_running(desktop)
    await desktop.annotate(names.STOP_MODE, "suspend")
    await desktop.set(running=False)
    assert "cannot suspend" in await desktop.reached(SETTLED, "StopFailed")
    await desktop.annotate(names.STOP_MODE, None)
    await desktop.settled()


@reaches((RESTART_PENDING, "TemplateChanged"), (SETTLED, "Settled"))
async def test_a_new_version_of_the_template_waits_for_a_restart(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin_running(desktop)
    (engine,) = desktop.pids("dockerd")
    monkeypatch.setattr(scripts, "SETTINGS", "/etc/rdd/other")  # as an upgrade would
    await desktop.settled(application={"updates": {"enabled": False}})  # has no effect here
    await desktop.reached(RESTART_PENDING, "TemplateChanged", "True")
    assert desktop.pids("dockerd") == [engine]
    await desktop.settled(running=False)
    monkeypatch.undo()
    await desktop.settled(application={"updates": {"enabled": True}})


# -- obstacles to creating a machine


@reaches((SETTLED, "CreateFailed"), ("Created", "CreateFailed"))
async def test_a_file_in_place_of_the_lima_home(desktop: Desktop) -> None:
    await desktop.delete()
    home = desktop.instance.lima_home
    home.mkdir(parents=True, exist_ok=True)
    home.rename(home.with_name("aside"))
    home.write_text("in the way")
    await desktop.set(running=False)
    assert str(home) in await desktop.reached(SETTLED, "CreateFailed")
    home.unlink()
    home.with_name("aside").rename(home)
    await desktop.settled()


def machine(namespace: str) -> Object:
    return {
        "metadata": {"name": "rd", "namespace": namespace},
        "spec": {"running": False, "templateRef": {"name": "source", "namespace": "default"}},
    }


@reaches((SETTLED, "NotOurs"), (SETTLED, "Refused"))
async def test_objects_of_the_user_are_kept(desktop: Desktop) -> None:
    await desktop.delete()
    source = {
        "metadata": {"name": "source", "namespace": "default"},
        "data": {"template": TEMPLATE},
    }
    await desktop.client.create(CONFIG_MAPS, source)
    await desktop.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await desktop.client.create(LIMAVMS, machine("default"))
    await desktop.set(running=True)
    message = await desktop.reached(SETTLED, "NotOurs")
    assert message == 'LimaVM "default/rd" does not belong to this App; delete it to continue'
    await desktop.delete()
    await desktop.client.delete(LIMAVMS, "rd", namespace="default")  # the App kept it
    await desktop.wait_gone(LIMAVMS, "rd", "default")
    await desktop.client.create(LIMAVMS, machine("other"))
    await desktop.set(running=True)
    message = await desktop.reached(SETTLED, "Refused")
    assert 'LimaVM name "rd" is already used in namespace "other"' in message
    await desktop.delete()
    await desktop.client.delete(LIMAVMS, "rd", namespace="other")
    await desktop.wait_gone(LIMAVMS, "rd", "other")
    for name, reason in (("rd", "NotOurs"), ("rd-template", "Refused")):
        mine = {"metadata": {"name": name, "namespace": "default"}, "data": {"mine": "yes"}}
        await desktop.client.create(CONFIG_MAPS, mine)
        await desktop.set(running=True)
        assert name in await desktop.reached(SETTLED, reason)
        await desktop.delete()
        found = await desktop.client.get(CONFIG_MAPS, name, namespace="default")
        assert found["data"] == {"mine": "yes"}
        await desktop.client.delete(CONFIG_MAPS, name, namespace="default")
    await desktop.client.delete(CONFIG_MAPS, "source", namespace="default")


@reaches((SETTLED, "NamespaceTerminating"), (SETTLED, "Settled"))
async def test_waits_for_a_terminating_namespace(desktop: Desktop) -> None:
    await desktop.delete()
    held = {"metadata": {"name": "held", "namespace": "doomed", "finalizers": ["example.com/x"]}}
    await desktop.client.create(NAMESPACES, {"metadata": {"name": "doomed"}})
    await desktop.client.create(CONFIG_MAPS, held)
    await desktop.client.delete(NAMESPACES, "doomed")
    await desktop.set(running=False, namespace="doomed")
    message = await desktop.reached(SETTLED, "NamespaceTerminating")
    assert message == 'Namespace "doomed" is being deleted'
    patch = {"metadata": {"finalizers": None}}
    await desktop.client.patch(CONFIG_MAPS, "held", patch, namespace="doomed")
    await desktop.settled()
    await desktop.delete()
    await desktop.wait_gone(NAMESPACES, "doomed")


@reaches((SETTLED, "NoDriver"))
async def test_no_driver_can_run_containers(request: pytest.FixtureRequest) -> None:
    async with worlds.desktop(PATH="/nonexistent") as desktop:
        await desktop.set(running=True)
        message = await desktop.reached(SETTLED, "NoDriver")
        lines = message.splitlines()
        assert lines[0] == "Nothing can run containers here:"
        assert [line.split()[0] for line in lines[1:]] == ["lima", "host", "qemu"]
        assert all("; to change that: " in line for line in lines[1:])
        check(desktop, request.function)


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
async def test_a_cluster_starts_in_steps(desktop: Desktop) -> None:
    await begin_stopped(desktop)
    desktop.remove_k3s()
    await desktop.set(running=True, kubernetes=KUBERNETES)
    assert "k3s v1.33.7+k3s3 is not installed" in await desktop.reached(SETTLED, "NotInstalled")
    await desktop.settled(running=False)
    await desktop.reached(KUBERNETES_READY, "NotRunning")

    desktop.install_k3s()
    Behaviour(nodes="none", health=500).write(desktop.instance.k3s_config)
    mine = "clusters: [\n"
    desktop.kube_config.parent.mkdir(exist_ok=True)
    desktop.kube_config.write_text(mine)
    await desktop.set(running=True)
    await desktop.reached(SETTLED, "Probing")
    Behaviour(nodes="none").write(desktop.instance.k3s_config)
    message = await desktop.reached(SETTLED, "MergeFailed")
    assert message.startswith("Failed to publish Kubernetes context: ")
    assert desktop.kube_config.read_text() == mine  # unchanged
    desktop.kube_config.unlink()
    assert await desktop.reached(SETTLED, "WaitingForNode") == "No node has registered yet"
    Behaviour(nodes="unready").write(desktop.instance.k3s_config)
    await desktop.until(
        "another message",
        lambda obj: current(obj, KUBERNETES_READY).get("message") == "No node is Ready yet",
    )
    Behaviour().write(desktop.instance.k3s_config)
    await desktop.settled()

    Behaviour(health=503).write(desktop.instance.k3s_config)
    await desktop.reached(SETTLED, "Probing")
    Behaviour().write(desktop.instance.k3s_config)
    await desktop.settled()
    Behaviour(is_silent=True).write(desktop.instance.k3s_config)
    await desktop.reached(SETTLED, "Probing")  # at the third probe without a response
    Behaviour().write(desktop.instance.k3s_config)
    await desktop.settled()
    await desktop.settled(running=False, kubernetes=NO_KUBERNETES)


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
        desktop = Desktop(home)
        desktop.install_k3s()
        try:
            await without_controllers(desktop)
            check(desktop, request.function)
        finally:
            await desktop.clean()


async def without_controllers(desktop: Desktop) -> None:
    async with desktop.open("*,-engine,-kubernetes"):
        # The App waits only for conditions of enabled controllers.
        await desktop.settled(running=True, kubernetes=KUBERNETES)
        assert current(await desktop.app(), ENGINE) == {}
        await desktop.hide_controllers()
        assert await desktop.reached(SETTLED, "WaitingForEngine") == (
            "Waiting for container engine condition"
        )
        await desktop.set(running=False)
        await desktop.reached(SETTLED, "EngineStale")
    async with desktop.open("*,-limavm,-engine,-kubernetes"):
        await desktop.set(running=True)
        assert await desktop.reached(SETTLED, "Stopped") == "LimaVM has not yet reached Started"
    async with desktop.open("*,-kubernetes"):
        await desktop.settled()
        await desktop.hide_controllers()
        assert await desktop.reached(SETTLED, "WaitingForKubernetes") == (
            "Waiting for Kubernetes condition"
        )
    async with desktop.open("*"):
        await desktop.settled()
        await desktop.reached(KUBERNETES_READY, "Ready", "True")
    async with desktop.open("*,-engine"):
        # The engine's condition is of an earlier generation.
        await desktop.reached("Running", "Started", "True")
        await desktop.hide_controllers()
        await desktop.set(virtualMachine={"cpus": 1})
        message = await desktop.reached(SETTLED, "EngineStale")
        assert message == "Container engine needs to be synchronized"
    async with desktop.open("*,-kubernetes"):
        await desktop.reached("Running", "Started", "True")
        await desktop.hide_controllers()
        await desktop.set(virtualMachine={"cpus": 2})
        message = await desktop.reached(SETTLED, "KubernetesStale")
        assert message == "Kubernetes context needs to be synchronized"
        await desktop.set(running=False)
        await desktop.reached("Running", "Stopped")
        await desktop.reached(SETTLED, "KubernetesStale")


async def test_every_row_is_reached() -> None:
    rows = {(row.type, row.reason) for row in reasons.REASONS} | OF_OTHERS
    assert rows - DECLARED.keys() - ELSEWHERE.keys() == set()
    for row, place in ELSEWHERE.items():
        file, _, name = place.partition(": ")
        assert f"def {name}" in (Path(__file__).parent / file).read_text(), row
