# SPDX-License-Identifier: Apache-2.0
"""Tools whose publishers sign: files, keys and signatures of the test, under their URLs."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.gpg_keys import GpgKey
from tests.publisher import Publisher, archive, publishing

from rdd.toolbox.catalogue import Catalogue, CatalogueFile, platform_of
from rdd.toolbox.installation import Toolbox

IN_ORDER = True


@dataclass
class Publishers:
    """A mirror of the publishers, and what they sign with."""

    mirror: Publisher
    key: GpgKey
    stranger: GpgKey
    program: Path

    def publish(self, file: CatalogueFile, text: str, signer: GpgKey) -> None:
        """Publish a release with its checksums, signed by somebody."""
        self.program.write_text(f"#!/bin/sh\necho {text}\n")
        (member,) = file.programs
        digest = self.mirror.publish(file.url, archive({member: self.program}))
        sums = f"{digest.removeprefix('sha256:')}  {file.name}\n".encode()
        self.mirror.publish(file.checksum_url, sums)
        signed = self.mirror.files[path_of(file.url)]
        if file.signature_url:
            self.mirror.publish(file.signature_url, signer.sign_content(signed))
        if file.checksum_signature_url:
            self.mirror.publish(file.checksum_signature_url, signer.sign_content(sums))


def path_of(url: str) -> str:
    return "/" + url.partition("://")[2]


def file_of(tool: str, version: str) -> CatalogueFile:
    system = os.uname()
    platform = platform_of(system.sysname, system.machine)
    (file,) = Catalogue.shipped().tool(tool).files(version, platform)
    return file


@pytest.fixture
def publishers(real_part: Callable[[str], Path], tmp_path: Path) -> Iterator[Publishers]:
    real_part("gpg")
    with publishing() as mirror:
        own, stranger = (GpgKey.create(tmp_path / name) for name in ("own", "stranger"))
        yield Publishers(mirror, own, stranger, tmp_path / "program")


@pytest.mark.parametrize(
    ("tool", "versions"),
    [
        pytest.param("helm", ("3.18.6", "3.19.0"), id="signed files"),
        pytest.param("nerdctl", ("2.1.6", "2.2.1"), id="signed checksums"),
    ],
)
def test_tool_of_a_publisher_that_signs_needs_its_signature(
    world: World, publishers: Publishers, tool: str, versions: tuple[str, str]
) -> None:
    mirror = publishers.mirror
    world.rdd("set", "running=false", f"downloads.mirror={mirror.url}")
    toolbox = Toolbox(world.instance.tools_dir)

    def install(version: str, *flags: str) -> tuple[int, str]:
        done = world.try_rdd("tools", "install", "--yes", *flags, f"{tool}@{version}")
        return done.code, done.last[1] if done.code else ""

    old, new = (file_of(tool, version) for version in versions)
    # Without a signature, without a key, and with a signature of somebody else.
    publishers.publish(old, "forged", publishers.stranger)
    signature = old.signature_url or old.checksum_signature_url
    forged = mirror.files.pop(path_of(signature))
    code, message = install(versions[0])
    assert (code, "404" in message) == (1, True), message
    mirror.publish(signature, forged)
    code, message = install(versions[0])
    assert (code, "404" in message) == (1, True), message
    mirror.publish(old.key_url, publishers.key.public.encode())
    code, message = install(versions[0])
    assert (code, "it was made with another key" in message) == (1, True), message
    assert old.key_url in message
    assert toolbox.installed() == []

    publishers.publish(old, "hello", publishers.key)
    world.kubectl("delete", "resources", "--all")  # with the digest of the forged file
    assert install(versions[0])[0] == 0
    assert toolbox.current(tool) == versions[0]

    # The server is taken over: another key, and a release that it signed.
    mirror.publish(new.key_url, publishers.stranger.public.encode())
    publishers.publish(new, "evil", publishers.stranger)
    code, message = install(versions[1])
    assert (code, "if the publisher has another one now, remove" in message) == (1, True), message
    assert toolbox.current(tool) == versions[0]

    # What was verified once needs no server any more.
    world.rdd("tools", "remove", "--yes", tool)
    mirror.files.clear()
    assert install(versions[0])[0] == 0
    assert toolbox.current(tool) == versions[0]


def test_digest_of_the_user_replaces_signed_checksums(world: World, publishers: Publishers) -> None:
    file = file_of("nerdctl", "2.2.1")
    publishers.publish(file, "hello", publishers.key)
    world.rdd("set", "running=false", f"downloads.mirror={publishers.mirror.url}")
    words = ("tools", "install", "--yes", "nerdctl@2.2.1")
    assert world.try_rdd(*words).code == 1  # no key
    digest = publishers.mirror.publish(file.url, publishers.mirror.files[path_of(file.url)])
    world.rdd(*words, f"--digest={digest}")
    assert Toolbox(world.instance.tools_dir).current("nerdctl") == "2.2.1"


def test_newest_version_is_that_of_the_monitored_list(world: World, publishers: Publishers) -> None:
    mirror, version = publishers.mirror, "3.99.1"
    file = file_of("helm", version)
    mirror.publish(file.key_url, publishers.key.public.encode())
    publishers.publish(file, "hello", publishers.key)
    mirror.publish(Catalogue.shipped().tool("helm").releases_url, b'[{"tag_name": "v3.99.1"}]')
    shipped = Catalogue.shipped().tool("helm").versions

    def known() -> list[str]:
        found = {one["name"]: one for one in world.rdd("tools", "ls", "-o", "json").json()}
        return list(found["helm"]["versions"])

    assert known() == list(shipped)  # without a control plane
    world.rdd("set", "running=false", f"downloads.mirror={mirror.url}")
    assert known() == list(shipped)
    assert mirror.requests == []
    world.rdd("set", "downloads.automatic=true")
    world.until(lambda: known() == [*shipped, version])
    world.rdd("tools", "install", "helm")
    assert Toolbox(world.instance.tools_dir).current("helm") == version


def test_package_has_only_what_its_publisher_signed(
    world: World, publishers: Publishers, tmp_path: Path
) -> None:
    mirror = publishers.mirror
    world.rdd("set", "running=false", f"downloads.mirror={mirror.url}")
    words = ("package", "create", "--yes", "--tool=helm=3.19.0", "--tool=nerdctl=2.2.1")
    platforms = ("--platform=linux/amd64", "--platform=linux/arm64")
    files = [
        file
        for tool, version in (("helm", "3.19.0"), ("nerdctl", "2.2.1"))
        for platform in ("linux/amd64", "linux/arm64")
        for file in Catalogue.shipped().tool(tool).files(version, platform)
    ]
    for file in files:
        mirror.publish(file.key_url, publishers.key.public.encode())
        publishers.publish(file, file.name, publishers.stranger)
    target = tmp_path / "package"
    done = world.try_rdd(*words, *platforms, str(target))
    assert (done.code, "another key" in done.last[1]) == (1, True), done
    assert not target.exists()
    sums = b""
    for file in files:
        publishers.publish(file, file.name, publishers.key)
        if file.checksum_signature_url:  # one file of checksums for all platforms
            sums += mirror.files[path_of(file.checksum_url)]
            mirror.publish(file.checksum_url, sums)
            mirror.publish(file.checksum_signature_url, publishers.key.sign_content(sums))
    world.rdd(*words, *platforms, str(target))
    again = tmp_path / "again"
    world.rdd(*words, *reversed(platforms), str(again))
    assert target.read_bytes() == again.read_bytes()
    shown = world.rdd("package", "show", str(target)).out
    assert (shown.count("linux/amd64"), shown.count("linux/arm64")) == (2, 2)
    world.rdd("package", "install", "--yes", "--settings=false", str(target))
    installed = {one.tool for one in Toolbox(world.instance.tools_dir).installed()}
    assert installed == {"helm", "nerdctl"}
