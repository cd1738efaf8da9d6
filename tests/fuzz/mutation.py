# SPDX-License-Identifier: Apache-2.0
"""Inputs for a target as a Hypothesis strategy: mutations of seeds, so that failures shrink."""

from hypothesis import strategies as st
from tests.fuzz.target import Target

MOST = 6


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """Return a seed with a few pieces removed, repeated, replaced or inserted."""
    data = bytearray(draw(st.sampled_from(list(target.seeds))))
    for _ in range(draw(st.integers(0, MOST))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        pieces = [
            st.binary(max_size=8),
            st.sampled_from(list(target.tokens) or [b""]),
            st.just(bytes(data[start:end]) * 2),
            st.just(b""),
        ]
        data[start:end] = draw(st.one_of(pieces))
    return bytes(data)
