# SPDX-License-Identifier: Apache-2.0
"""Checks with real problems, and the controller that stores their findings."""

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.controllers.controller_world import controller_environment, eventually, managed
from tests.runtime.runtime_world import World

from rdd.api import names
from rdd.client import kubeconfig
from rdd.controllers.app.diagnostics import checks, engine_checks, host_checks
from rdd.controllers.app.diagnostics.controller import diagnostics
from rdd.controllers.app.diagnostics.findings import Facts, Finding
from rdd.host.contexts import docker_contexts, kube_contexts
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of
from rdd.kinds.diagnostic import Diagnostic
from rdd.runtime import install_definitions, resource_of
from rdd.vm.disk_report import FULL, LOW, DiskReport


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "Test", "message": ""}


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """Return the facts of a running App in a temporary home."""
    app = {
        "spec": {"running": True, "containerEngine": {"name": "moby"}},
        "status": {
            "conditions": [
                condition(kind) for kind in ("Running", "ContainerEngineReady", "KubernetesReady")
            ]
        },
    }
    found = Facts(Instance("t", tmp_path), tmp_path, {}, app)
    found.instance.dir.mkdir(parents=True)
    found.instance.short_dir.mkdir(parents=True)
    return found


def stopped(facts: Facts) -> Facts:
    return replace(facts, app={"spec": {"running": False}})


@pytest.mark.parametrize("name", ["app", "docker-context", "engine", "kube-context", "ports"])
def test_unused_subject_is_not_applicable(facts: Facts, name: str) -> None:
    for other in (stopped(facts), replace(facts, app=None)):
        found = checks.run(name, other)
        assert (found.healthy, found.reason) == ("True", "NotApplicable")


def outcome(finding: Finding) -> tuple[str, str]:
    if finding.healthy == "False":
        assert finding.next_step
        assert finding.evidence
    return finding.healthy, finding.reason


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        pytest.param("Settled", "it is", ("True", "Settled"), id="settled"),
        pytest.param("Starting", "not yet", ("True", "Starting"), id="settling"),
        pytest.param("StartFailed", "no", ("False", "StartFailed"), id="does not start"),
        pytest.param("NoDriver", "Nothing:\nhost  no", ("False", "NoDriver"), id="no driver"),
    ],
)
def test_app_check_reports_permanent_problems(
    facts: Facts, reason: str, message: str, expected: tuple[str, str]
) -> None:
    assert facts.app is not None
    settled = {"type": "Settled", "status": "Unknown", "reason": reason, "message": message}
    found = checks.app(replace(facts, app={**facts.app, "status": {"conditions": [settled]}}))
    assert outcome(found) == expected
    assert found.message == message.partition("\n")[0]


def test_app_check_reports_a_failure_that_only_the_user_can_resolve(facts: Facts) -> None:
    assert facts.app is not None
    settled = {"type": "Settled", "status": "False", "reason": "FetchFailed", "message": "no"}
    status = {"conditions": [settled]}
    found = checks.app(replace(facts, app={**facts.app, "status": status}))
    assert outcome(found) == ("True", "FetchFailed")  # the controller retries
    failure = {"reason": "NotFound", "remedy": "rdd set containerEngine.version="}
    found = checks.app(replace(facts, app={**facts.app, "status": {**status, "failure": failure}}))
    assert outcome(found) == ("False", "FetchFailed")
    assert found.next_step == failure["remedy"]


def test_docker_context_check(facts: Facts) -> None:
    name, directory = facts.instance.name, facts.docker_directory
    assert outcome(engine_checks.docker_context(facts)) == ("False", "ContextMissing")
    docker_contexts.publish(directory, name, host="unix:///elsewhere.sock")
    found = engine_checks.docker_context(facts)
    assert outcome(found) == ("False", "ContextMissing")
    assert "points to unix:///elsewhere.sock" in found.evidence[0]
    docker_contexts.publish(directory, name, host=facts.instance.docker_endpoint)
    assert outcome(engine_checks.docker_context(facts)) == ("True", "NotCurrent")
    docker_contexts.make_current(directory, name, instead_of="")
    assert outcome(engine_checks.docker_context(facts)) == ("True", "Current")
    variable = replace(facts, environment={"DOCKER_HOST": "tcp://x"})
    assert outcome(engine_checks.docker_context(variable)) == ("True", "Overridden")


def test_malformed_docker_configuration(facts: Facts) -> None:
    facts.docker_directory.mkdir()
    (facts.docker_directory / "config.json").write_text("{ not json")
    assert outcome(engine_checks.docker_context(facts)) == ("False", "ConfigUnreadable")


class FakeEngine:
    """An engine with one response."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(self._answer)
        self._socket.close()


def test_engine_check(facts: Facts) -> None:
    path = facts.instance.docker_socket
    assert outcome(engine_checks.engine(facts)) == ("False", "EngineUnreachable")
    FakeEngine(path, b"HTTP/1.0 500 Internal Server Error\r\n\r\n")
    assert outcome(engine_checks.engine(facts)) == ("False", "EngineUnhealthy")
    path.unlink()
    FakeEngine(path, b"HTTP/1.0 200 OK\r\n\r\nOK")
    assert outcome(engine_checks.engine(facts)) == ("True", "Answering")


def test_kube_context_check(facts: Facts) -> None:
    assert outcome(engine_checks.kube_context(facts)) == ("False", "ContextMissing")
    paths = kube_contexts.locations(facts.environment, facts.home)
    entry = {"server": "https://127.0.0.1:1"}
    kube_contexts.publish(paths, facts.instance.name, cluster=entry, user={"token": "t"})
    assert outcome(engine_checks.kube_context(facts)) == ("True", "Published")
    paths[0].write_text("{ not yaml")
    assert outcome(engine_checks.kube_context(facts)) == ("False", "ConfigUnreadable")


def forward(kind: str, port: int, **more: str) -> str:
    address = f"0.0.0.0:{port}"
    event = {"type": kind, "protocol": "tcp", "hostAddr": address, "guestAddr": address, **more}
    return json.dumps({"time": "2026-01-01T00:00:00Z", "status": {"portForward": event}}) + "\n"


def test_last_event_of_a_port_counts(facts: Facts) -> None:
    log = facts.instance.lima_home / "rd" / "ha.stdout.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "cut short}\n"
        + forward("failed", 8080, error="address already in use")
        + forward("failed", 9090, error="address already in use")
        + forward("forwarding", 9090)
        + '{"time'
    )
    found = host_checks.ports(facts)
    assert outcome(found) == ("False", "NotForwarded")
    assert found.evidence == ("0.0.0.0:8080: address already in use",)
    assert "sport = :8080" in found.next_step
    log.write_text(forward("failed", 8080, error="x") + forward("stopping", 8080))
    assert outcome(host_checks.ports(facts)) == ("True", "Forwarded")


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (10 << 30, ("True", "Enough")),
        (2 << 30, ("False", "DiskLow")),
        (1 << 20, ("False", "DiskFull")),
    ],
)
def test_disk_check(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, free: int, expected: tuple[str, str]
) -> None:
    # Disks of these sizes are not available everywhere.
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    found = host_checks.disk(facts)
    assert outcome(found) == expected
    assert ("rdd --instance t disk prune --all" in found.next_step) == (found.healthy == "False")


def test_disk_of_a_guest_is_checked(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10 << 30})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    log = facts.instance.lima_home / "rd" / "ha.stdout.log"
    log.parent.mkdir(parents=True)
    events = []
    for free, expected in ((2 << 30, "Enough"), (300 << 20, LOW), (0, FULL), (2 << 30, "Enough")):
        report = DiskReport(point="/", total_bytes=4 << 30, free_bytes=free)
        status = {"running": True, "disk": report.to_data()}
        events.append(json.dumps({"time": "2026-01-01T00:00:00Z", "status": status}) + "\n")
        log.write_text("".join(events))
        found = host_checks.disk(facts)
        assert found.reason == expected
        if expected != "Enough":
            assert found.evidence == (report.space,)
            assert found.next_step == "rdd --instance t disk prune --all"
        stopped = replace(facts, app={"spec": {}, "status": {}})
        assert outcome(host_checks.disk(stopped)) == ("True", "Enough")


@pytest.fixture
def tls() -> Iterator[tuple[trustme.CA, int]]:
    yield from serve_tls(None)


def serve_tls(expires: datetime | None) -> Iterator[tuple[trustme.CA, int]]:
    """Run a TLS server with a certificate of an authority."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", not_after=expires).configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection, context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(1)
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    yield authority, listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def write_kubeconfig(facts: Facts, authority: trustme.CA, port: int) -> None:
    text = kubeconfig.render(
        f"https://127.0.0.1:{port}",
        authority=authority.cert_pem.bytes().decode(),
        admin_token="a",
        reader_token="b",
    )
    facts.instance.config.write_text(text)


def test_certificate_check(facts: Facts, tls: tuple[trustme.CA, int]) -> None:
    authority, port = tls
    assert outcome(host_checks.certificates(facts)) == ("False", "ConfigUnreadable")
    down = host_checks.certificates(replace(facts, is_served=False))
    assert outcome(down) == ("True", "NotApplicable")
    write_kubeconfig(facts, authority, port)
    assert outcome(host_checks.certificates(facts)) == ("True", "Valid")
    write_kubeconfig(facts, trustme.CA(), port)
    assert outcome(host_checks.certificates(facts)) == ("False", "NotTrusted")


def test_certificate_that_expires_soon(facts: Facts) -> None:
    for days, expected in ((1, ("False", "ExpiresSoon")), (100, ("True", "Valid"))):
        expires = datetime.now(UTC) + timedelta(days=days, hours=1)
        for authority, port in serve_tls(expires):
            write_kubeconfig(facts, authority, port)
            assert outcome(host_checks.certificates(facts)) == expected


def test_processes_check(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = facts.instance.lima_home / "rd"
    directory.mkdir(parents=True)
    (directory / "lima.yaml").write_text("vmType: host\n")
    (directory / "rdd.json").write_text('{"driver": "host"}')
    assert outcome(host_checks.processes(facts)) == ("True", "Complete")
    (directory / "ha.pid").write_text(f"{os.getpid()}\n")
    assert outcome(host_checks.processes(facts)) == ("True", "Complete")  # it may be starting
    monkeypatch.setattr(host_checks, "_START_S", -1.0)
    assert outcome(host_checks.processes(facts)) == ("False", "HalfRunning")


def test_failing_check_is_unknown(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(facts: Facts) -> Finding:
        raise RuntimeError("no idea")

    monkeypatch.setattr(checks, "CHECKS", {"disk": broken})
    found = checks.run("disk", facts)
    assert (found.healthy, found.reason) == ("Unknown", "CheckFailed")
    assert "no idea" in found.message


def healthy(obj: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ((obj.get("status") or {}).get("conditions") or [{}])[0]
    return found


async def test_diagnostics_are_recreated_and_follow_the_app(world: World, tmp_path: Path) -> None:
    await install_definitions(world.client, [definition_of(App)])
    async with managed(world, diagnostics(controller_environment(tmp_path))):
        for name in checks.CHECKS:
            await eventually(world, Diagnostic, name, healthy)
        resource = resource_of(Diagnostic)
        first = await world.client.get(resource, "engine")
        assert healthy(first)["reason"] == "NotApplicable"

        await world.client.delete(resource, "engine")
        again = await eventually(world, Diagnostic, "engine", healthy)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]

        app = {"metadata": {"name": "app"}, "spec": {"running": True}}
        await world.client.create(resource_of(App), app)
        now = {**condition("Running"), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await world.client.patch(
            resource_of(App), "app", {"status": {"conditions": [now]}}, subresource="status"
        )
        unhealthy = await eventually(
            world, Diagnostic, "engine", lambda obj: healthy(obj)["status"] == "False"
        )
        assert healthy(unhealthy)["reason"] == "EngineUnreachable"
        assert unhealthy["status"]["nextStep"]


async def test_foreign_diagnostic_is_ignored(world: World, tmp_path: Path) -> None:
    await install_definitions(world.client, [definition_of(App)])
    async with managed(world, diagnostics(controller_environment(tmp_path))):
        mine = {"metadata": {"name": "mine"}}
        await world.client.create(resource_of(Diagnostic), mine)
        await eventually(world, Diagnostic, "disk", healthy)
        assert "status" not in await world.client.get(resource_of(Diagnostic), "mine")


async def test_mute_and_requested_run_survive_a_restart(world: World, tmp_path: Path) -> None:
    await install_definitions(world.client, [definition_of(App)])
    resource = resource_of(Diagnostic)

    async def annotate(name: str) -> None:
        patch = {"metadata": {"annotations": {name: "true"}}}
        await world.client.patch(resource, "disk", patch)

    async with managed(world, diagnostics(controller_environment(tmp_path))):
        await eventually(world, Diagnostic, "disk", healthy)
        await annotate(names.DIAGNOSTIC_MUTED)
    await annotate(names.RUN_REQUESTED)
    async with managed(world, diagnostics(controller_environment(tmp_path))):
        found = await eventually(
            world,
            Diagnostic,
            "disk",
            lambda obj: names.RUN_REQUESTED not in obj["metadata"]["annotations"],
        )
        assert found["metadata"]["annotations"] == {names.DIAGNOSTIC_MUTED: "true"}
