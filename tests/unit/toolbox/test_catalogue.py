# SPDX-License-Identifier: Apache-2.0
"""The catalogue: the shipped data, its publishers' schemes, and what a broken one is told."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rdd.controllers.app.k3s_versions_table import RELEASES
from rdd.host.errors import HostError
from rdd.toolbox.catalogue import Catalogue, InvalidCatalogue, Tool, platform_of

SHIPPED = Catalogue.shipped()
DIGEST = "sha256:" + "a" * 64


def data() -> dict[str, Any]:
    text = resources.files("rdd.toolbox").joinpath("catalogue.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize(
    ("name", "version", "platform", "urls"),
    [
        pytest.param(
            "compose",
            "2.40.3",
            "linux/arm64",
            [
                "https://github.com/docker/compose/releases/download/v2.40.3/docker-compose-linux-aarch64"
            ],
            id="compose",
        ),
        pytest.param(
            "k3s",
            "1.33.7+k3s3",
            "linux/arm64",
            [
                "https://github.com/k3s-io/k3s/releases/download/v1.33.7%2Bk3s3/k3s-arm64",
                "https://github.com/k3s-io/k3s/releases/download/v1.33.7%2Bk3s3/"
                "k3s-airgap-images-arm64.tar.zst",
            ],
            id="k3s",
        ),
        pytest.param(
            "engine",
            "29.0.0",
            "linux/amd64",
            [
                "https://download.docker.com/linux/static/stable/x86_64/docker-29.0.0.tgz",
                "https://download.docker.com/linux/static/stable/x86_64/"
                "docker-rootless-extras-29.0.0.tgz",
            ],
            id="a version that is not listed",
        ),
        pytest.param(
            "kubectl",
            "1.34.1",
            "linux/amd64",
            ["https://dl.k8s.io/release/v1.34.1/bin/linux/amd64/kubectl"],
            id="kubectl",
        ),
    ],
)
def test_builds_the_urls_of_the_publishers_scheme(
    name: str, version: str, platform: str, urls: list[str]
) -> None:
    assert [one.url for one in SHIPPED.tool(name).files(version, platform)] == urls


@pytest.mark.parametrize("tool", SHIPPED.tools.values(), ids=lambda tool: tool.name)
def test_every_shipped_file_has_a_way_to_be_verified_or_is_marked(tool: Tool) -> None:
    """Only Docker publishes its static archives without checksums."""
    assert tool.license
    for version in tool.versions:
        for platform in tool.platforms:
            for file in tool.files(version, platform):
                assert urlsplit(file.url).scheme == "https"
                assert file.programs or file.content == "images"
                no_checksums = urlsplit(file.url).hostname == "download.docker.com"
                assert bool(file.checksum_url) != no_checksums
                assert file.is_unverified == (no_checksums and not file.digest)
                assert bool(file.digest) == bool(file.size_bytes)


def test_has_every_tool_of_the_toolbox_and_every_supported_k3s() -> None:
    assert set(SHIPPED.tools) == {
        "buildx",
        "compose",
        "docker",
        "engine",
        "helm",
        "k3s",
        "kubectl",
        "nerdctl",
    }
    assert {f"v{one}" for one in SHIPPED.tool("k3s").versions} == set(RELEASES)


def test_a_digest_of_the_catalogue_belongs_to_one_url() -> None:
    """Docker's archives have the same name for every architecture."""
    changed = data()
    tool = changed["tools"]["docker"]
    url = SHIPPED.tool("docker").files("28.5.1", "linux/amd64")[0].url
    tool["digests"] = {"28.5.1": {url: {"digest": DIGEST, "size": 12}}}
    docker = Catalogue.parse(json.dumps(changed)).tool("docker")
    (amd64,) = docker.files("28.5.1", "linux/amd64")
    (arm64,) = docker.files("28.5.1", "linux/arm64")
    assert (amd64.digest, amd64.size_bytes, amd64.is_unverified) == (DIGEST, 12, False)
    assert arm64.is_unverified


@pytest.mark.parametrize(
    ("name", "text", "versions"),
    [
        pytest.param(
            "docker",
            '<a href="docker-28.5.1.tgz">\n<a href="docker-29.0.0-rc.1.tgz">\n'
            '<a href="docker-9.1.0.tgz">\n<a href="docker-rootless-extras-28.5.1.tgz">',
            ("9.1.0", "28.5.1"),
            id="an index of files",
        ),
        pytest.param(
            "compose",
            '[{"tag_name": "v2.40.3"}, {"tag_name":"v5.0.0-rc.1"}]',
            ("2.40.3",),
            id="releases of GitHub, without candidates",
        ),
        pytest.param("kubectl", "v1.34.1", ("1.34.1",), id="one version"),
        pytest.param(
            "k3s", '{"latest":"v1.34.6+k3s1","name":"stable"}', ("1.34.6+k3s1",), id="channels"
        ),
        pytest.param("helm", "<html>not what was expected</html>", (), id="something else"),
    ],
)
def test_finds_versions_in_the_publishers_list(
    name: str, text: str, versions: tuple[str, ...]
) -> None:
    assert SHIPPED.tool(name).find_versions(text) == versions


def test_signatures_are_those_that_the_publishers_have() -> None:
    (helm,) = SHIPPED.tool("helm").files("3.19.0", "linux/arm64")
    assert helm.signature is not None
    assert (helm.signature.signed, helm.signature.url) == (
        "file",
        "https://github.com/helm/helm/releases/download/v3.19.0/helm-v3.19.0-linux-arm64.tar.gz.asc",
    )
    (nerdctl,) = SHIPPED.tool("nerdctl").files("2.2.1", "linux/amd64")
    assert nerdctl.signature is not None
    assert (nerdctl.signature.signed, nerdctl.signature.url) == (
        "checksums",
        "https://github.com/containerd/nerdctl/releases/download/v2.2.1/SHA256SUMS.asc",
    )
    for file in (helm, nerdctl):
        assert file.key_url.startswith("https://")
    # The checksum file is of no use where the digest is known.
    assert replace(nerdctl, digest=DIGEST).signature is None
    (kubectl,) = SHIPPED.tool("kubectl").files("1.34.1", "linux/amd64")
    assert kubectl.signature is None


def test_further_versions_are_sorted_by_number_and_others_are_ignored() -> None:
    found = SHIPPED.with_versions({"compose": ["2.100.0", "latest", "2.9.0"], "unknown": ["1"]})
    versions = found.tool("compose").versions
    assert (versions[0], versions[-1]) == ("2.9.0", "2.100.0")
    assert "latest" not in versions
    assert "2.100.0" not in SHIPPED.tool("compose").versions


def test_names_what_is_available() -> None:
    with pytest.raises(HostError, match='no tool "podman"; available tools: buildx, compose'):
        SHIPPED.tool("podman")
    with pytest.raises(HostError, match='"v1" is not a version of kubectl such as'):
        SHIPPED.tool("kubectl").files("v1", "linux/amd64")
    with pytest.raises(HostError, match="not available for linux/riscv64; available platforms"):
        SHIPPED.tool("kubectl").files("1.34.1", platform_of("Linux", "riscv64"))


def _set(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(changed: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            changed = changed[int(name)] if isinstance(changed, list) else changed[name]
        changed[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(_set("format", 2), "format of the catalogue is 2", id="format"),
        pytest.param(_set("tools.helm.role", "x"), 'role "x" is none of', id="role"),
        pytest.param(_set("tools.helm.versions", ["../x"]), "versionPattern", id="version"),
        pytest.param(_set("tools.helm.versions", []), "no version", id="no versions"),
        pytest.param(
            _set("tools.helm.files.0.url", "https://h/{arch.__class__}"), "variable", id="template"
        ),
        pytest.param(_set("tools.helm.files.0.url", "file:///etc"), "not a URL", id="url"),
        pytest.param(
            _set("tools.helm.files.0.programs", {"": "../helm"}), "not a file name", id="program"
        ),
        pytest.param(_set("tools.helm.releases.pattern", "("), "not valid", id="pattern"),
        pytest.param(_set("tools.helm.releases.pattern", "x"), "one group", id="no group"),
        pytest.param(_set("tools.helm.publicKey", {}), "has no publicKey", id="no key"),
        pytest.param(
            _set("tools.nerdctl.publicKey.url", "/etc/key"), "has no publicKey", id="key is no URL"
        ),
        pytest.param(_set("tools", []), "not valid", id="shape"),
    ],
)
def test_rejects_a_broken_catalogue(change: Callable[[dict[str, Any]], None], problem: str) -> None:
    changed = data()
    change(changed)
    with pytest.raises(InvalidCatalogue, match=re.escape(problem)):
        Catalogue.parse(json.dumps(changed))


def test_a_digest_that_is_none_is_rejected_when_it_is_used() -> None:
    changed = data()
    tool = changed["tools"]["docker"]
    url = SHIPPED.tool("docker").files("28.5.1", "linux/amd64")[0].url
    tool["digests"] = {"28.5.1": {url: {"digest": "md5:1", "size": 12}}}
    with pytest.raises(HostError, match='digest "md5:1" must begin with one of'):
        Catalogue.parse(json.dumps(changed))


def test_the_file_is_as_the_script_writes_it() -> None:
    text = resources.files("rdd.toolbox").joinpath("catalogue.json").read_text()
    assert text == json.dumps(json.loads(text), indent=1) + "\n"
    assert Path("scripts/catalogue.py").is_file()
