# SPDX-License-Identifier: Apache-2.0
"""The contexts that rdd writes for Docker and kubectl are read by the real programs."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.e2e.service.service_world import CURRENT_CONTEXT
from tests.programs import run_program

from rdd.host.contexts import docker_contexts, kube_contexts
from rdd.host.contexts.user_files import locked_like_kubectl

NAME = "rancher-desktop-2"
HOST = "unix:///nowhere/docker.sock"
CLUSTER = {"server": "https://127.0.0.1:7443", "insecure-skip-tls-verify": True}
USER = {"token": "abc"}


def run(program: Path, *arguments: str, env: Mapping[str, str]) -> str:
    done = run_program([str(program), *arguments], env=dict(env))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def docker(real_part: Callable[[str], Path]) -> Path:
    return real_part("docker")


def test_docker_reads_the_context(docker: Path, tmp_path: Path) -> None:
    env = {**os.environ, "DOCKER_CONFIG": str(tmp_path)}
    run(docker, "context", "create", "theirs", "--docker", "host=tcp://127.0.0.1:1", env=env)
    run(docker, "context", "use", "theirs", env=env)
    docker_contexts.publish(tmp_path, NAME, host=HOST)
    (shown,) = json.loads(run(docker, "context", "inspect", NAME, env=env))
    assert shown["Endpoints"]["docker"]["Host"] == HOST
    assert f"Rancher Desktop {NAME}" in run(docker, "context", "ls", env=env)
    assert run(docker, *CURRENT_CONTEXT, env=env).strip() == "theirs"
    assert docker_contexts.make_current(tmp_path, NAME, instead_of="theirs")
    assert run(docker, *CURRENT_CONTEXT, env=env).strip() == NAME
    assert docker_contexts.remove(tmp_path, NAME)
    assert run(docker, *CURRENT_CONTEXT, env=env).strip() == "default"
    names = run(docker, "context", "ls", "--format", "{{.Name}}", env=env).split()
    assert names == ["default", "theirs"]


def test_docker_can_change_the_context_we_wrote(docker: Path, tmp_path: Path) -> None:
    env = {**os.environ, "DOCKER_CONFIG": str(tmp_path)}
    docker_contexts.publish(tmp_path, NAME, host=HOST)
    docker_contexts.make_current(tmp_path, NAME, instead_of="")
    run(docker, "context", "use", "default", env=env)
    assert docker_contexts.current(tmp_path) == ""
    run(docker, "context", "rm", NAME, env=env)
    assert not docker_contexts.remove(tmp_path, NAME)


def test_kubectl_reads_the_context_from_several_files(kubectl: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    env = {**os.environ, "KUBECONFIG": f"{first}{os.pathsep}{second}"}
    paths = kube_contexts.locations(env, tmp_path)
    run(kubectl, "config", "set-cluster", "work", "--server=https://work", env=env)
    run(kubectl, "config", "set-context", "work", "--cluster=work", env=env)
    run(kubectl, "config", "use-context", "work", env=env)
    before = [path.read_bytes() if path.exists() else None for path in paths]
    assert kube_contexts.publish(paths, NAME, cluster=CLUSTER, user=USER)
    names = run(kubectl, "config", "get-contexts", "-o", "name", env=env).split()
    assert sorted(names) == [NAME, "work"]
    assert run(kubectl, "config", "current-context", env=env).strip() == "work"
    assert kube_contexts.make_current(paths, NAME, instead_of="work")
    assert run(kubectl, "config", "current-context", env=env).strip() == NAME
    shown = json.loads(run(kubectl, "config", "view", "--minify", "-o", "json", env=env))
    assert shown["clusters"][0]["cluster"]["server"] == CLUSTER["server"]
    run(kubectl, "config", "set-context", NAME, "--namespace=mine", env=env)
    assert not kube_contexts.publish(paths, NAME, cluster=CLUSTER, user=USER)
    for path in paths:
        if path.exists():
            kube_contexts.remove(path, NAME)
    assert run(kubectl, "config", "get-contexts", "-o", "name", env=env).split() == ["work"]
    run(kubectl, "config", "use-context", "work", env=env)
    after = [path.read_bytes() if path.exists() else None for path in paths]
    assert after == before


def test_kubectl_reads_a_new_kubeconfig(kubectl: Path, tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    kube_contexts.publish([path], NAME, cluster=CLUSTER, user=USER)
    env = {**os.environ, "KUBECONFIG": str(path)}
    assert run(kubectl, "config", "get-contexts", "-o", "name", env=env).split() == [NAME]
    own = tmp_path / "kube.config"
    own.write_text(kube_contexts.standalone(NAME, cluster=CLUSTER, user=USER))
    env["KUBECONFIG"] = str(own)
    assert run(kubectl, "config", "current-context", env=env).strip() == NAME


def test_kubectl_and_rdd_respect_each_others_lock(kubectl: Path, tmp_path: Path) -> None:
    path = tmp_path / "config"
    env = {**os.environ, "KUBECONFIG": str(path)}
    with locked_like_kubectl(path):
        done = run_program(
            [str(kubectl), "config", "set-cluster", "x", "--server=https://x"], env=env
        )
        assert done.returncode != 0
        assert "config.lock" in done.stderr
    run(kubectl, "config", "set-cluster", "x", "--server=https://x", env=env)
    assert sorted(os.listdir(tmp_path)) == ["config"]
