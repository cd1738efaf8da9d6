# SPDX-License-Identifier: Apache-2.0
"""Every fuzz target accepts its seeds and a few mutations; `make ci-long` runs them for long."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.catalog import TARGETS
from tests.fuzz.mutation import inputs
from tests.fuzz.target import Target
from tests.fuzz.targets import archives, wire

NAMED = [pytest.param(target, id=name) for name, target in TARGETS.items()]


@pytest.fixture(autouse=True)
def _close_loops() -> Iterator[None]:
    yield
    wire.LOOP.close()
    archives.LOOP.close()


@pytest.mark.parametrize("target", NAMED)
def test_seeds_are_handled(target: Target) -> None:
    assert target.seeds
    for data in (*target.seeds, b"", b"\0", b"\xff" * 64):
        target.run(data)


@pytest.mark.filterwarnings("ignore:The recursion limit")  # CEL sets it
@pytest.mark.parametrize("target", NAMED)
def test_mutations_are_handled(target: Target) -> None:
    @settings(max_examples=20, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def attempt(data: st.DataObject) -> None:
        target.run(data.draw(inputs(target)))

    attempt()
