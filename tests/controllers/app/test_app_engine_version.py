# SPDX-License-Identifier: Apache-2.0
"""containerEngine.version: fetched with consent and installed before anything restarts."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.app.app_world import (
    APPS,
    FakeMachines,
    app_object,
    enabled,
    patch_app,
    report,
    settled,
    until_reported,
    works,
)
from tests.controllers.controller_world import controller_environment, eventually, gone, managed
from tests.origin import Origin, serving
from tests.runtime.runtime_world import World

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.app.app import app
from rdd.controllers.resources.controller import resource
from rdd.kinds.limavm import TEMPLATE_KEY
from rdd.kinds.resource import Checkout
from rdd.runtime import resource_of
from rdd.toolbox.catalogue import Catalogue
from rdd.toolbox.installation import Toolbox

VERIFIED, UNVERIFIED = "28.5.1", "28.6.0"


PROGRAM = os.urandom(300_000)  # more than the origin sends before it waits


def archive(name: str = "docker/dockerd") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(PROGRAM)
        tar.addfile(info, io.BytesIO(PROGRAM))
    return gzip.compress(buffer.getvalue())


def catalogue(url: str, content: bytes) -> Catalogue:
    file = {"url": f"{url}/{{version}}.tgz", "programs": {"docker/dockerd": "dockerd"}}
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    known = {f"{url}/{VERIFIED}.tgz": {"digest": digest, "size": len(content)}}
    engine = {
        "title": "Engine",
        "license": "Apache-2.0",
        "homepage": "https://engine.example",
        "role": "engine",
        "versions": [VERIFIED, UNVERIFIED],
        "versionPattern": "[0-9.]+",
        "releases": {"url": url, "pattern": "([0-9.]+)"},
        "platforms": {"linux/amd64": {}, "linux/arm64": {}},
        "files": [file],
        "digests": {VERIFIED: known},
    }
    return Catalogue.parse(json.dumps({"format": 1, "tools": {"engine": engine}}))


class EngineWorld:
    """An App that runs, and the server of its engines."""

    def __init__(self, world: World, home: Path, origin: Origin) -> None:
        self.world = world
        self.origin = origin
        self.machines = FakeMachines()
        self.env = controller_environment(home)
        self.toolbox = Toolbox(self.env.instance.tools_dir)

    async def select(self, version: str, **spec: Any) -> None:
        await patch_app(self.world, containerEngine={"name": "moby", "version": version}, **spec)

    async def directory(self) -> str:
        return _directory(
            await self.world.client.get(CONFIG_MAPS, "rd-template", namespace="default")
        )

    async def refused(self, version: str, **spec: Any) -> str:
        with pytest.raises(errors.Forbidden) as caught:
            await self.select(version, **spec)
        return caught.value.message


@asynccontextmanager
async def engines(
    world: World, home: Path, content: bytes, *, type_: str = "host"
) -> AsyncIterator[EngineWorld]:
    async with serving() as origin:
        origin.content = content
        found = EngineWorld(world, home, origin)
        tools = catalogue(origin.base, content)
        env = replace(found.env, environment={"PATH": "/usr/bin"})
        controllers = (
            app(env, probe=works, catalogue=lambda: tools),
            found.machines.controller(),
            resource(env),
        )
        async with managed(world, *controllers):
            await enabled(world)
            wanted = app_object(running=True, virtualMachine={"type": type_})
            await world.client.create(APPS, wanted)
            await report(world, names.ENGINE_READY, "True", "Connected")
            await settled(world)
            yield found


async def test_version_is_fetched_with_consent_and_installed_before_the_restart(
    world: World, tmp_path: Path
) -> None:
    async with engines(world, tmp_path, archive()) as found:
        starts = found.machines.starts
        await found.select(VERIFIED)
        obj = await until_reported(world, "False", "NotInstalled")
        remedy = f"rdd --instance 7 set --yes containerEngine.version={VERIFIED}"
        assert obj["status"]["failure"] == {"reason": "NotInstalled", "remedy": remedy}
        assert found.origin.paths == []
        assert found.machines.starts == starts
        assert await found.directory() == ""
        found.origin.gate = asyncio.Event()
        await world.client.patch(
            APPS, "app", {"metadata": {"annotations": {names.DOWNLOADS_APPROVED: "true"}}}
        )
        await until_reported(world, "False", "Fetching")
        assert found.machines.starts == starts
        found.origin.gate.set()
        directory = found.toolbox.directory("engine", VERIFIED)
        await _until_directory(world, str(directory))
        assert (directory / "dockerd").read_bytes() == PROGRAM
        assert found.machines.starts == starts + 1
        # Without a value the engine of the host runs again; the installed one stays.
        await found.select("")
        await _until_directory(world, "")
        assert found.toolbox.find("engine", VERIFIED) is not None
        found.origin.paths.clear()
        await found.select(VERIFIED)  # needs no consent any more
        await _until_directory(world, str(directory))
        assert found.origin.paths == []
        assert await _checkouts(world) == []


@pytest.mark.parametrize(
    ("offered", "reason", "message"),
    [
        pytest.param(b"other", "ChecksumMismatch", "expected sha256:", id="wrong checksum"),
        pytest.param(None, "NotFound", "the server answered 404", id="missing"),
    ],
)
async def test_failed_fetch_leaves_the_engine_running(
    world: World, tmp_path: Path, offered: bytes | None, reason: str, message: str
) -> None:
    async with engines(world, tmp_path, archive()) as found:
        starts = found.machines.starts
        found.origin.content = offered or b""
        found.origin.status = 200 if offered else 404
        await found.select(VERIFIED, downloads={"automatic": True})
        obj = await until_reported(world, "False", "FetchFailed")
        assert obj["status"]["failure"]["reason"] == reason
        assert message in _message(obj)
        assert found.machines.starts == starts
        assert await found.directory() == ""
        assert len(await _checkouts(world)) == 1
        await found.select("")
        await settled(world)
        await gone(
            world, Checkout, f"engine-{VERIFIED}-{VERIFIED}.tgz"
        )  # nothing is fetched any more


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"no archive", "was rejected: it is damaged", id="no archive"),
        pytest.param(archive("../docker/dockerd"), "leads out of it", id="upwards"),
        pytest.param(archive("docker/other"), "does not contain docker/dockerd", id="other"),
    ],
)
async def test_broken_archive_is_never_installed(
    world: World, tmp_path: Path, content: bytes, message: str
) -> None:
    async with engines(world, tmp_path, content) as found:
        starts = found.machines.starts
        await found.select(VERIFIED, downloads={"automatic": True})
        obj = await until_reported(world, "False", "FetchFailed")
        assert message in _message(obj)
        assert obj["status"]["failure"]["reason"] == "InvalidSource"
        assert found.toolbox.installed() == []
        assert found.machines.starts == starts


async def test_unverified_version_needs_its_digest(world: World, tmp_path: Path) -> None:
    async with engines(world, tmp_path, archive()) as found:
        await found.select(UNVERIFIED, downloads={"automatic": True})
        obj = await until_reported(world, "False", "FetchFailed")
        assert "its publisher has no checksums" in _message(obj)
        assert obj["status"]["failure"] == {
            "reason": "NoChecksum",
            "remedy": f"rdd --instance 7 tools install engine@{UNVERIFIED} "
            f"--digest {UNVERIFIED}.tgz=sha256:…",
        }
        assert found.origin.paths == []


async def test_unknown_version_is_refused_with_the_allowed_ones(
    world: World, tmp_path: Path
) -> None:
    async with engines(world, tmp_path, archive()) as found:
        message = await found.refused("1.2.3")
        assert (
            'spec.containerEngine.version "1.2.3" is not supported; supported are '
            f"{VERIFIED}, {UNVERIFIED}, and any version that `rdd tools install` has installed"
        ) in message
        directory = found.toolbox.directory("engine", "1.2.3")
        directory.mkdir(parents=True)
        (directory / "dockerd").touch()
        (directory / "installed.json").write_text('{"programs": {"dockerd": 0}}')
        await found.select("1.2.3")
        await _until_directory(world, str(directory))


async def test_virtual_machine_has_the_engine_of_its_image(world: World, tmp_path: Path) -> None:
    async with engines(world, tmp_path, archive(), type_="qemu") as found:
        assert "spec.containerEngine.version needs the type host" in await found.refused(VERIFIED)


def _message(obj: Object) -> str:
    (found,) = [one for one in obj["status"]["conditions"] if one["type"] == "Settled"]
    return str(found["message"])


async def _until_directory(world: World, directory: str) -> None:
    await eventually(world, CONFIG_MAPS, "rd-template", lambda obj: _directory(obj) == directory)


def _directory(template: Object) -> str:
    """Return the directory of the engine in a template; empty for the engine of the host."""
    lines = template["data"][TEMPLATE_KEY].splitlines()
    mark = "CONTAINER_ENGINE_DIR: "
    return next((line.partition(mark)[2] for line in lines if line.strip().startswith(mark)), "")


async def _checkouts(world: World) -> list[Object]:
    listed = await world.client.list(resource_of(Checkout))
    return listed.items
