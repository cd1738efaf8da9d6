# SPDX-License-Identifier: Apache-2.0
"""The real daemon with a real engine, and the page in a real browser."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.dashboard.chromium import Chromium, chromium
from tests.dashboard.desktop import Desktop, desktop

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "src" / "rdd" / "dashboard" / "assets"


@pytest.fixture(scope="session")
def built_page() -> Path:
    """Return the folder of the built page."""
    if not (ASSETS / "index.html").exists():
        message = "the dashboard is not built; run: make dashboard"
        if os.environ.get("RDD_REQUIRE_PARTS"):
            pytest.fail(message)
        pytest.skip(message)
    return ASSETS


@pytest.fixture(scope="module")
def browser(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chromium]:
    with chromium(real_part("chromium"), tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def world(
    rdd_script: Path,
    kubectl: Path,
    built_page: Path,
    real_part: Callable[[str], Path],
) -> Iterator[Desktop]:
    """A started App with its engine; its image is busybox."""
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables"):
        real_part(name)
    with desktop(rdd_script, kubectl, real_part("docker")) as made:
        yield made
