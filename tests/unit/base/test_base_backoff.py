# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff."""

import pytest

from rdd.base.backoff import Backoff, delay_s


def test_delays_double_up_to_the_limit() -> None:
    backoff = Backoff(first_s=0.5, longest_s=3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_success_resets_the_delay() -> None:
    backoff = Backoff(first_s=1.0, longest_s=60.0)
    backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert (backoff.failures, backoff.next_s()) == (0, 1.0)


@pytest.mark.parametrize("failures", [0, 1, 59, 60, 61, 2_000, 10**9])
def test_delay_never_exceeds_the_limit_or_overflows(failures: int) -> None:
    assert 0.01 <= delay_s(failures, first_s=0.01, longest_s=15.0) <= 15.0
