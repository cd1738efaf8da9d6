# SPDX-License-Identifier: Apache-2.0
"""Ranges of keys."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.store.keys import NO_END, first_id_after, prefix_end, scan_range

TEXT = st.text(
    st.one_of(st.sampled_from("a/\0\ud7ff\ue000\U0010ffff"), st.characters(codec="utf-8")),
    max_size=5,
)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        pytest.param("/pods/", "/pods0", id="the next code point"),
        pytest.param("", NO_END, id="no prefix, no end"),
        pytest.param("a\U0010ffff", "b", id="the last code point has no next"),
        pytest.param("\U0010ffff", NO_END, id="nothing sorts after the last"),
        pytest.param("\ud7ff", "\ue000", id="surrogates do not exist"),
    ],
)
def test_prefix_end_is_greater_than_all_keys_of_the_prefix(prefix: str, end: str | bytes) -> None:
    assert prefix_end(prefix) == end


@given(TEXT, TEXT, TEXT)
@settings(max_examples=200, deadline=None)
def test_scan_range_contains_exactly_the_keys_of_the_prefix_after_the_start(
    prefix: str, after: str, key: str
) -> None:
    low, high = scan_range(prefix, after)
    inside = low.encode() <= key.encode() and (
        isinstance(high, bytes) or key.encode() < high.encode()
    )
    assert inside == (key.startswith(prefix) and (not after or key > after))


def test_first_id_after_separates_a_revision_from_the_next() -> None:
    assert (7 << 12) + 4095 < first_id_after(7) == 8 << 12
