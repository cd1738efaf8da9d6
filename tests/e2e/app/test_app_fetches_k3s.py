# SPDX-License-Identifier: Apache-2.0
"""Kubernetes on the type host: k3s is fetched with consent, before anything restarts.

The engine is real, k3s a stand-in (tests/k3s.py) that a local server offers as a mirror.
"""

import contextlib
import hashlib
import os
import pty
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.app.host_app import RELEASE, ROOT, app, conditions, run_docker
from tests.e2e.app.test_app_host import world  # noqa: F401  # fixture
from tests.e2e.service.service_world import World
from tests.programs import run_program, start_program
from tests.publisher import Publisher, publishing

from rdd.vm.drivers.kubernetes_files import program_of

IN_ORDER = True
PROGRAM = (
    f'#!/bin/sh\nexec env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable} -m tests.k3s "$@"\n'
).encode()
PAUSE = "rancher/mirrored-pause:3.6"
KUBERNETES = ("kubernetes.enabled=true", "kubernetes.version=1.33.7")


def publish(
    source: Publisher, program: bytes, images: bytes, *, listed: bytes | None = None
) -> None:
    """Publish a release; `listed` is the program that the checksums are of."""
    base = f"https://github.com/k3s-io/k3s/releases/download/{RELEASE.replace('+', '%2B')}"
    lines = ""
    for arch, name in (("amd64", "k3s"), ("arm64", "k3s-arm64")):
        archive = f"k3s-airgap-images-{arch}.tar.zst"
        source.publish(f"{base}/{name}", program)
        source.publish(f"{base}/{archive}", images)
        lines += f"{hashlib.sha256(listed or program).hexdigest()}  {name}\n"
        lines += f"{hashlib.sha256(images).hexdigest()}  {archive}\n"
    for arch in ("amd64", "arm64"):
        source.publish(f"{base}/sha256sum-{arch}.txt", lines.encode())


@pytest.fixture(scope="module")
def source() -> Iterator[Publisher]:
    with publishing() as found:
        yield found


def engine_start(world: World) -> int:  # noqa: F811
    count: int = app(world)["status"].get("restartCount", 0)
    text = world.kubectl("get", "limavm", "rd", "-o", "jsonpath={.status.restartCount}")
    return count + int(text)


def test_without_consent_nothing_is_fetched_and_the_engine_goes_on(
    world: World,  # noqa: F811
    docker: Path,
    source: Publisher,
) -> None:
    world.rdd("set", "running=true", "kubernetes.enabled=false", f"downloads.mirror={source.url}")
    source.requests.clear()
    before = engine_start(world)
    done = world.try_rdd("set", *KUBERNETES)
    assert done.code == 1
    assert f"k3s {RELEASE} is not installed; to change that: rdd set --yes" in done.last[1]
    assert conditions(world)["Settled"] == ("False", "NotInstalled")
    run_docker(world, docker, "ps")
    assert engine_start(world) == before
    assert source.requests == []


@pytest.fixture(scope="module")
def images(world: World, docker: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:  # noqa: F811
    """Return an archive like that of k3s: zstd around images of `docker save`."""
    directory = tmp_path_factory.mktemp("images")
    (directory / "file").write_text("content")
    world.rdd("set", "running=true", "kubernetes.enabled=false")
    with tarfile.open(directory / "root.tar", "w") as tar:
        tar.add(directory / "file", "file")
    run_docker(world, docker, "import", str(directory / "root.tar"), PAUSE)
    run_docker(world, docker, "save", "-o", str(directory / "images.tar"), PAUSE)
    run_docker(world, docker, "rmi", PAUSE)
    run_program(["zstd", "-q", str(directory / "images.tar")], check=True)
    return (directory / "images.tar.zst").read_bytes()


@pytest.mark.parametrize(
    ("missing", "listed", "reason"),
    [
        pytest.param("/", None, "NotFound", id="missing"),
        pytest.param(".zst", None, "NotFound", id="images-missing"),
        pytest.param("none", b"x", "ChecksumMismatch", id="wrong"),
    ],
)
def test_failure_leaves_the_engine_running_and_names_the_cause(
    world: World,  # noqa: F811
    docker: Path,
    source: Publisher,
    images: bytes,
    missing: str,
    listed: bytes | None,
    reason: str,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    publish(source, PROGRAM, images, listed=listed)
    source.files = {path: file for path, file in source.files.items() if missing not in path}
    before = engine_start(world)
    done = world.try_rdd("set", "--yes", *KUBERNETES)
    assert done.code == 1
    assert app(world)["status"]["failure"]["reason"] == reason
    assert conditions(world)["Settled"] == ("False", "FetchFailed")
    run_docker(world, docker, "ps")
    assert engine_start(world) == before
    assert not program_of(RELEASE, world.environment()).exists()


def test_program_is_fetched_verified_and_run(
    world: World,  # noqa: F811
    docker: Path,
    source: Publisher,
    images: bytes,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    publish(source, PROGRAM, images)
    world.rdd("set", "--yes", *KUBERNETES)
    assert conditions(world)["KubernetesReady"] == ("True", "Ready")
    path = program_of(RELEASE, world.environment())
    assert path.read_bytes() == PROGRAM
    assert os.access(path, os.X_OK)
    # The cluster's own images are in the store of docker, where those that are built there are.
    assert run_docker(world, docker, "images", "-q", PAUSE)
    world.until(
        lambda: (
            "app.rancherdesktop.io/downloadsApproved"
            not in app(world)["metadata"].get("annotations", {})
        )
    )
    run_docker(world, docker, "ps")


def test_question_on_a_terminal_names_source_and_size(
    world: World,  # noqa: F811
    source: Publisher,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    program_of(RELEASE, world.environment()).unlink()
    leader, follower = pty.openpty()
    command = [str(world.script), "set", *KUBERNETES]
    with start_program(
        command, env=world.environment(), stdin=follower, stdout=follower, stderr=follower
    ) as program:
        os.close(follower)
        shown = b""
        while b"Fetch it now? [y/N]" not in shown:
            shown += os.read(leader, 4096)
        assert f"/{RELEASE.replace('+', '%2B')}/k3s (".encode() in shown
        assert f"/{RELEASE.replace('+', '%2B')}/k3s-airgap-images-".encode() in shown
        assert f"({len(PROGRAM)} B)".encode() in shown
        os.write(leader, b"y\n")
        with contextlib.suppress(OSError):  # the end of the program closes the terminal
            while os.read(leader, 4096):
                pass
        assert program.wait() == 0
    os.close(leader)
    assert conditions(world)["KubernetesReady"] == ("True", "Ready")


def test_image_built_with_docker_is_in_the_namespace_of_the_cluster_after_an_import(
    world: World,  # noqa: F811
    docker: Path,
    tmp_path: Path,
    real_part: Callable[[str], Path],
) -> None:
    ctr = real_part("ctr")
    (tmp_path / "Dockerfile").write_text('FROM scratch\nCOPY Dockerfile /\nCMD ["/none"]\n')
    archive = tmp_path / "app.tar"
    world.rdd("set", "kubernetes.enabled=false")
    run_docker(world, docker, "build", "-q", "-t", "app:1", str(tmp_path))
    run_docker(world, docker, "save", "-o", str(archive), "app:1")
    world.rdd("set", "containerEngine.name=containerd")
    socket = world.instance.lima_home / "rd" / "sock" / "containerd.sock"
    cluster = (str(ctr), "--address", str(socket), "--namespace", "k8s.io", "images")
    world.rdd("shell", *cluster, "import", str(archive))
    listed = world.rdd("shell", *cluster, "ls", "-q").out.split()
    assert listed == ["docker.io/library/app:1"]
