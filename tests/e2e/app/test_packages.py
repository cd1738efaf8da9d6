# SPDX-License-Identifier: Apache-2.0
"""A machine that never had a network gets engine, tools, Kubernetes, an image and settings.

The programs are those of test_tools.py, k3s is the stand-in tests/k3s.py. The second machine is
another home on this one; its mirror does not exist, and the publisher counts requests.
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.app.host_app import ROOT, conditions, run_docker
from tests.e2e.app.test_app_host import world  # noqa: F401  # fixture
from tests.e2e.app.test_tools import (  # noqa: F401  # fixtures
    COMPOSE,
    ENGINE,
    engine_digests,
    mirror,
    plugins,
    urls,
)
from tests.e2e.machine.host_world import image
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program
from tests.publisher import Publisher

from rdd.toolbox.catalogue import Catalogue, platform_of
from rdd.toolbox.installation import Toolbox

IN_ORDER = True
K3S = "1.33.7+k3s3"
PAUSE = "rancher/mirrored-pause:3.6"
PLATFORM = platform_of(os.uname().sysname, os.uname().machine)
PROGRAM = f'#!/bin/sh\nexec env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable} -m tests.k3s "$@"\n'


def image_archive(name: str, root: bytes) -> bytes:
    """Return an image as `docker save` writes it."""
    layers = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(root).hexdigest()}"]}
    arch = PLATFORM.partition("/")[2]
    config = json.dumps({"architecture": arch, "os": "linux", "rootfs": layers}).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in (
            ("config.json", config),
            ("layer.tar", root),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def publisher(mirror: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Publisher:  # noqa: F811
    """Publish k3s with its images, too."""
    path = tmp_path_factory.mktemp("images") / "images.tar"
    path.write_bytes(image_archive(PAUSE, image()))
    run_program(["zstd", "-q", str(path)], check=True)
    program, images = urls("k3s", K3S)
    lines = ""
    for url, content in (
        (program, PROGRAM.encode()),
        (images, path.with_suffix(".tar.zst").read_bytes()),
    ):
        digest = mirror.publish(url, content).removeprefix("sha256:")
        lines += f"{digest}  {url.rpartition('/')[2]}\n"
    (file, _) = Catalogue.shipped().tool("k3s").files(K3S, PLATFORM)
    mirror.publish(file.checksum_url, lines.encode())
    return mirror


@pytest.fixture(scope="module")
def package(
    world: World,  # noqa: F811
    docker: Path,
    publisher: Publisher,
    engine_digests: dict[str, str],  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Create a package of a running instance."""
    world.rdd("set", "running=false", f"downloads.mirror={publisher.url}")
    flags = [f"--digest={name}={digest}" for name, digest in engine_digests.items()]
    world.rdd("tools", "install", "--yes", *flags, f"engine@{ENGINE}")
    world.rdd(
        *("set", "--yes", "running=true", f"containerEngine.version={ENGINE}"),
        *("kubernetes.enabled=true", "kubernetes.version=1.33.7"),
    )
    run_docker(world, docker, "import", "-", "tools", text=image())
    path = tmp_path_factory.mktemp("package") / "everything"
    create = ("package", "create", f"--tool=compose={COMPOSE}", "--image=tools")
    done = world.try_rdd(*create, str(path))
    assert (done.code, "not fetched without consent" in done.last[1]) == (1, True)
    assert not path.exists()
    world.rdd(*create, "--yes", str(path))
    return path


@pytest.fixture(scope="module")
def fresh(rdd_script: Path, kubectl: Path) -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    for made in make_world(rdd_script, home / "h", kubectl):
        try:
            yield made
        finally:
            made.try_rdd("svc", "delete")
    shutil.rmtree(home, ignore_errors=True)


def test_same_instance_gives_the_same_bytes_without_fetching(
    world: World,  # noqa: F811
    publisher: Publisher,
    package: Path,
    tmp_path: Path,
) -> None:
    publisher.requests.clear()
    world.kubectl("delete", "resources", "--all")
    again = tmp_path / "again"
    world.rdd(
        *("package", "create", "--yes", f"--tool=compose={COMPOSE}", "--image=tools"), str(again)
    )
    with package.open("rb") as one, again.open("rb") as two:
        digests = [hashlib.file_digest(file, "sha256").hexdigest() for file in (one, two)]
    assert digests[0] == digests[1]
    fetched = [line for line in publisher.requests if "sum" not in line and ".sha256" not in line]
    assert fetched == []


def test_unknown_key_and_missing_signature_are_refused(
    world: World,  # noqa: F811
    fresh: World,
    package: Path,
    tmp_path: Path,
) -> None:
    fingerprint = world.rdd("package", "key").out.strip()
    done = fresh.try_rdd("package", "install", "--yes", str(package))
    assert (done.code, f"add --trust-key {fingerprint}" in done.last[1]) == (1, True)
    with tarfile.open(package) as tar:
        content = tar.extractfile("manifest.json")
        assert content is not None
        (tmp_path / "manifest.json").write_bytes(content.read())
    done = fresh.try_rdd("package", "install", "--yes", str(tmp_path))
    assert (done.code, "is not signed" in done.last[1]) == (1, True)
    assert not (fresh.home / ".cache" / "rdd" / "files").exists()


def test_fresh_machine_gets_everything_from_one_file(
    world: World,  # noqa: F811
    fresh: World,
    docker: Path,
    publisher: Publisher,
    package: Path,
) -> None:
    fingerprint = world.rdd("package", "key").out.strip()
    world.rdd("set", "running=false")
    publisher.requests.clear()
    shown = fresh.rdd("package", "show", str(package)).out
    assert f"Key: {fingerprint}" in shown
    assert f"containerEngine.version={ENGINE}" in shown
    fresh.rdd("package", "install", "--yes", f"--trust-key={fingerprint}", str(package))
    assert conditions(fresh)["Settled"] == ("True", "Settled")
    assert conditions(fresh)["KubernetesReady"] == ("True", "Ready")
    version = run_docker(fresh, docker, "version", "--format={{.Server.Version}}")
    assert version.startswith(ENGINE)
    assert run_docker(fresh, docker, "run", "--rm", "tools", "echo", "hello") == "hello"
    assert run_docker(fresh, docker, "images", "-q", PAUSE)
    installed = Toolbox(fresh.instance.tools_dir).installed()
    assert {(one.tool, one.version) for one in installed} == {
        ("compose", COMPOSE),
        ("engine", ENGINE),
    }
    assert publisher.requests == []
