# SPDX-License-Identifier: Apache-2.0
"""Known k3s releases: shipped, listed by the publisher, written in full."""

import json
from typing import Any

import pytest

from rdd.controllers.app.k3s_releases import Releases
from rdd.controllers.app.k3s_versions_table import CHANNELS, VERSIONS, label_of, release_of


def channels(**latest: str) -> str:
    """Return the publisher's list of channels."""
    data = [
        {"id": name, "type": "channel", "name": name, "latest": version}
        for name, version in latest.items()
    ]
    return json.dumps({"type": "collection", "data": data})


def test_newer_releases_and_channels_are_taken_from_the_list() -> None:
    found = Releases.with_published(
        channels(**{
            "stable": "v1.36.2+k3s1",
            "latest": "v1.37.0-rc1+k3s1",
            "v1.36": "v1.36.2+k3s1",
            "v1.33": "v1.33.7+k3s9",
            "v1.20": "v1.20.15+k3s1",
            "mine": "v1.36.2+k3s1",
        })
    )  # fmt: skip
    assert dict(found.versions) == {**VERSIONS, "1.36.2": "v1.36.2+k3s1"}
    assert dict(found.channels) == {**CHANNELS, "stable": "1.36.2", "1.36": "1.36.2"}
    assert found.resolve("stable") == found.resolve("v1.36") == "1.36.2+k3s1"
    assert found.resolve("1.33.7") == "1.33.7"
    assert Releases.of_config_map(found.to_data()) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"data": 1}',
        '{"data": [1]}',
        '{"data": [{"name": 1}]}',
        "x" * 100_000,
    ],
)
def test_damaged_list_changes_nothing(text: str) -> None:
    assert Releases.with_published(text) == Releases.shipped()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"versions": "{}"},
        {"versions": "x", "channels": "{}"},
        {"versions": "[]", "channels": "{}"},
        {"versions": '{"1.36.0": 1}', "channels": "{}"},
        {"versions": '{"1.36.0": "../../x"}', "channels": "{}"},
    ],
)
def test_damaged_config_map_gives_the_shipped_releases(data: dict[str, Any]) -> None:
    assert Releases.of_config_map(data) == Releases.shipped()


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("1.33.7", "v1.33.7+k3s3"),
        ("1.99.1+k3s2", "v1.99.1+k3s2"),
        ("v1.99.1+k3s2", "v1.99.1+k3s2"),
        ("1.99.1", ""),
        ("1.99.1+k3s2/../..", ""),
        ("1.99.1+k3s2\n", ""),
        ("", ""),
    ],
)
def test_release_is_a_listed_version_or_one_in_full(version: str, release: str) -> None:
    assert release_of(version) == release


def test_label_of_a_full_release_is_valid() -> None:
    assert label_of("1.99.1+k3s2") == "1.99.1-k3s2"
