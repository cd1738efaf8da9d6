# SPDX-License-Identifier: Apache-2.0
"""Ways around a profile of the system, tried with the real daemon.

/etc/rancher-desktop is a private mount of each command, so the machine's own is not touched.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.service.profile_world import Profiled, with_private_etc
from tests.e2e.service.service_world import World
from tests.programs import run_program

from rdd.client.kubeconfig import load

LOCKS = """
app:
  locked:
    kubernetes: {enabled: false}
    virtualMachine: {type: host}
"""
LIMITS = """
rdd:
  rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
  - {apiGroups: [app.rancherdesktop.io], resources: [apps], verbs: [create, patch]}
"""
DEVIATING = {
    "apiVersion": "app.rancherdesktop.io/v1alpha1",
    "kind": "App",
    "metadata": {"name": "app"},
    "spec": {"running": True, "kubernetes": {"enabled": True}, "virtualMachine": {"type": "host"}},
}


@pytest.fixture
def profiled(world: World, tmp_path: Path, real_part: Callable[[str], Path]) -> Iterator[Profiled]:
    yield from with_private_etc(world, tmp_path, real_part("unshare"))


def test_locks_hold_whatever_is_tried(profiled: Profiled) -> None:
    world = profiled.world
    backup = str(world.home / "old.db")
    # Without a machine controller nothing starts; the database then has an App that should run.
    world.rdd("svc", "start", "--", "--controllers=app")
    assert profiled.create(DEVIATING).code == 0
    world.rdd("svc", "backup", backup)
    world.rdd("svc", "stop")
    profiled.write(LOCKS)

    # An old database, without user admission, with variables that move user directories.
    moved = {name: str(world.home) for name in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS")}
    world.rdd("svc", "start", "--without-user-admission", "--", "--controllers=*", **moved)
    profiled.until_not_allowed()
    started = world.try_rdd("start")
    assert started.code != 0
    assert f"spec.kubernetes.enabled is locked to false by {profiled.path}:4" in started.err

    # `rdd get` and `rdd profile` show it, and all locks are accepted at once.
    (shown,) = [
        entry
        for entry in world.rdd("get", "-o", "json").json()
        if entry["property"] == "kubernetes.enabled"
    ]
    assert shown["lock"] == {"value": False, "file": profiled.path, "line": 4}
    locks = world.rdd("profile", "show", "-o", "json").json()["locks"]
    assert {lock["property"]: lock["isMet"] for lock in locks} == {
        "kubernetes.enabled": False,
        "virtualMachine.type": True,
    }
    accepted = world.rdd("profile", "accept", "--wait=false")
    assert accepted.out == "kubernetes.enabled: true -> false\n"
    assert profiled.app()["spec"]["kubernetes"]["enabled"] is False

    # Another instance has no profile of its own.
    other = world.named("work")
    assert other.rdd("profile", "show", "-o", "json").json()["file"] == profiled.path

    # A restored backup.
    world.rdd("svc", "stop")
    world.rdd("svc", "restore", backup)
    world.rdd("svc", "start")
    profiled.until_not_allowed()

    # A broken profile says so, and its removal is noticed while the daemon runs.
    profiled.write("app: 5")
    world.until(lambda: f"{profiled.path}:1: app: Invalid value" in profiled.settled()[1])
    assert world.try_rdd("profile", "check").code == 1
    copy = json.loads(world.kubectl("get", "cm", "-n", "rdd-system", "profile", "-o", "json"))
    assert copy["data"]["problems"].startswith(f"{profiled.path}:1: app: ")


def test_controller_program_does_not_get_around_a_lock(profiled: Profiled) -> None:
    world = profiled.world
    world.rdd("svc", "start", "--", "--controllers=app")
    assert profiled.create(DEVIATING).code == 0
    world.rdd("svc", "stop")
    profiled.write(LOCKS)
    world.rdd("svc", "start", "--", "--controllers=lima")
    world.begin_program(world.script.with_name("app-controller"))
    profiled.until_not_allowed()


def test_no_client_is_an_administrator_under_limits(
    profiled: Profiled, openssl_path: Path, tmp_path: Path
) -> None:
    world = profiled.world
    profiled.write(LIMITS)

    def openssl(*words: str) -> None:
        run_program([str(openssl_path), *words], cwd=tmp_path, check=True)

    subject = "/O=system:masters/CN=me"
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *key[:3], "-subj", subject, "-keyout", "me.key", "-out", "me.csr")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", "me.csr", *signed, "-out", "me.crt")
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,me,1,"system:masters"\n')
    options = (f"--client-ca-file={tmp_path / 'ca.crt'}", f"--token-auth-file={tokens}")
    # Served by hand.
    world.begin("svc", "serve", "--controllers=app", *options)
    world.until(lambda: world.instance.config.exists())
    config = load(world.instance.config)
    server = config.server
    certificate = (
        f"--client-certificate={tmp_path / 'me.crt'}",
        f"--client-key={tmp_path / 'me.key'}",
    )

    def kubectl(*words: str) -> Any:
        return run_program(
            [str(world.kubectl_path), "--server", server, "--insecure-skip-tls-verify", *words],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )

    def own(*words: str) -> Any:
        config = str(world.instance.config)
        command = [str(world.kubectl_path), "--kubeconfig", config, *words]
        return run_program(command, env=world.environment())

    for identity in ((kubectl, certificate), (kubectl, ("--token=secret",)), (own, ())):
        run, proof = identity
        assert "system:masters" not in run("auth", "whoami", *proof).stdout
        done = run("create", "namespace", "mine", *proof)
        assert done.returncode != 0
        assert f"rdd.rules of {profiled.path} do not allow it" in done.stderr
        assert run("get", "namespaces", *proof).returncode == 0


@pytest.mark.parametrize("command", ["show", "check", "accept"])
def test_without_a_profile_the_commands_report_that(profiled: Profiled, command: str) -> None:
    done = profiled.world.rdd("profile", command)
    assert done.out.startswith("No deployment profile ")
    if command == "show":
        assert str(profiled.path) in done.out.splitlines()[1]
