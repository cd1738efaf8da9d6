# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of Apps on this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def docker(real_part: Callable[[str], Path]) -> Path:
    """Return the program docker; the engine of an App runs on this machine."""
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables", "ip"):
        real_part(name)
    return real_part("docker")
