# SPDX-License-Identifier: Apache-2.0
"""Invalid input for the App is rejected with the valid values, and files of the user are kept."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.app import settled_world as worlds
from tests.e2e.app.settled_world import VERSION
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world

from rdd.controllers.app.k3s_versions_table import CHANNELS, VERSIONS
from rdd.host import hardware

ENGINE = "ContainerEngineReady"


@pytest.fixture(scope="module")
def world(
    rdd_script: Path, tmp_path_factory: pytest.TempPathFactory, kubectl: Path
) -> Iterator[World]:
    """Run a control plane without an App."""
    for made in make_world(rdd_script, tmp_path_factory.mktemp("bad") / "h", kubectl):
        made.rdd("svc", "start")
        yield made


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(["running"], "expected PROPERTY=VALUE format", id="no value"),
        pytest.param(["=true"], "property name must not be empty", id="no name"),
        pytest.param([], "usage: rdd set PROPERTY=VALUE", id="nothing"),
    ],
)
def test_a_malformed_setting_is_rejected_before_the_daemon_starts(
    rdd_script: Path, tmp_path: Path, kubectl: Path, words: list[str], why: str
) -> None:
    for fresh in make_world(rdd_script, tmp_path / "h", kubectl):
        done = fresh.try_rdd("set", *words)
        assert done.code != 0
        assert why in done.err
        assert not fresh.instance.dir.exists()


@pytest.mark.parametrize(
    ("word", "listed"),
    [
        pytest.param("runs=true", ["running", "containerEngine.name"], id="name"),
        pytest.param(
            "containerEngine.title=moby",
            ["valid properties: logs.maxFiles, logs.maxSize, name"],
            id="name below",
        ),
        pytest.param("containerEngine.name=podman", ["moby", "containerd"], id="value"),
        pytest.param("running=perhaps", ["true", "false"], id="no boolean"),
        pytest.param("virtualMachine.cpus=many", ["virtualMachine.cpus"], id="no number"),
        pytest.param(
            "virtualMachine.type=xen", ["auto", "host", "lima", "qemu"], id="no such type"
        ),
    ],
)
def test_unknown_names_and_values_are_rejected_with_the_valid_ones(
    world: World, word: str, listed: list[str]
) -> None:
    done = world.try_rdd("set", word)
    assert done.code in (1, 3)
    for name in listed:
        assert name in done.last[1]
    assert has_no_app(world)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param(
            ["virtualMachine.cpus=9999"],
            f"exceeds the host CPU count of {hardware.cpus()}",
            id="cpus",
        ),
        pytest.param(
            ["virtualMachine.type=qemu", "virtualMachine.memory=99999Gi"],
            "exceeds the host memory of ",
            id="memory",
        ),
        pytest.param(
            ["virtualMachine.type=qemu", "virtualMachine.memory=1Gi"],
            "is less than the minimum of 2Gi",
            id="too little memory",
        ),
        pytest.param(
            ["kubernetes.enabled=true", "kubernetes.version=1.2.3"],
            'spec.kubernetes.version \\"1.2.3\\" is not supported; supported are '
            f"{', '.join(VERSIONS)} and the channels {', '.join(CHANNELS)}",
            id="Kubernetes version",
        ),
        pytest.param(
            ["kubernetes.version=1.2.3"], "is not supported; supported are", id="while disabled"
        ),
    ],
)
def test_values_beyond_the_limits_of_the_machine_are_rejected_with_the_limits(
    world: World, words: list[str], why: str
) -> None:
    done = world.try_rdd("set", *words)
    assert done.code == 3
    assert why.replace('\\"', '"') in done.last[1]
    assert has_no_app(world)


def test_a_second_app_is_rejected(world: World) -> None:
    other = {
        "apiVersion": "app.rancherdesktop.io/v1alpha1",
        "kind": "App",
        "metadata": {"name": "second"},
        "spec": {"running": True},
    }
    path = world.home / "second.json"
    path.write_text(json.dumps(other))
    with pytest.raises(AssertionError, match="App resource must be named 'app'"):
        world.kubectl("create", "-f", str(path))
    assert has_no_app(world)


def has_no_app(world: World) -> bool:
    return not json.loads(world.kubectl("get", "apps", "-o", "json"))["items"]


# -- files of the user


@pytest.mark.parametrize(
    ("json_text", "yaml_text", "why"),
    [
        pytest.param('{"currentContext": "default",}', "clusters: [\n", "is not JSON", id="broken"),
        pytest.param("[]", "- a\n", "is not a JSON object", id="something else"),
    ],
)
async def test_files_that_cannot_be_parsed_are_kept_and_reported(
    real_part: Callable[[str], Path], json_text: str, yaml_text: str, why: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    real_part("dockerd")
    async with worlds.desktop() as desktop:
        docker = desktop.home / ".docker" / "config.json"
        docker.parent.mkdir()
        docker.write_text(json_text)
        desktop.kube_config.parent.mkdir()
        desktop.kube_config.write_text(yaml_text)
        paths, texts = (docker, desktop.kube_config), (json_text, yaml_text)
        before = [path.stat() for path in paths]
        desktop.install_k3s()
        await desktop.set(running=True, kubernetes={"enabled": True, "version": VERSION})
        message = await desktop.reached(ENGINE, "Connected", "True")
        assert f'the current Docker context was not changed: "{docker}" {why}' in message
        message = await desktop.reached("Settled", "MergeFailed")
        assert str(desktop.kube_config) in message
        await desktop.set(running=False)
        await desktop.reached("Running", "Stopped")
        await desktop.delete()
        for path, text, was in zip(paths, texts, before, strict=True):
            assert path.read_text() == text
            now = path.stat()
            assert (now.st_ino, now.st_mtime_ns) == (was.st_ino, was.st_mtime_ns)
