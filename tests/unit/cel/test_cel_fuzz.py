# SPDX-License-Identifier: Apache-2.0
"""Hostile expressions: whatever the text, the answer is a value or one of our errors.

Seeds are in tests/data/fuzz/cel, one expression per file; what once broke the
compiler is added there. Mutations of the seeds take a moment in CI and go on for
minutes under `make soak`.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd import cel
from rdd.cel import types as t
from rdd.cel.values import NONE

_SEEDS = sorted(Path(__file__).parents[2].joinpath("data", "fuzz", "cel").glob("*.cel"))
_SCHEMA = t.object_type(
    "O",
    {
        "x": t.INT,
        "s": t.STRING,
        "l": t.list_of(t.INT),
        "m": t.map_of(t.STRING, t.STRING),
        "when": t.TIMESTAMP,
    },
)
_ENV = cel.Environment({"self": _SCHEMA, "oldSelf": t.optional_of(_SCHEMA), "d": t.DYN})
_DATA: dict[str, Any] = {
    "self": {
        "x": 3,
        "s": "text",
        "l": [1, 2, 3],
        "m": {"a": "b"},
        "when": "2020-01-01T00:00:00Z",
    },
    "oldSelf": NONE,
    "d": {"a": [1, {"b": None}], "c": 1.5},
}


def attempt(expression: str) -> None:
    """Compile and evaluate; only the errors of the package may come out."""
    try:
        program = _ENV.compile(expression)
        program.evaluate(_DATA, budget=cel.Budget(200_000, per_call=100_000))
    except cel.CelError as error:
        assert str(error)


@pytest.mark.parametrize("seed", _SEEDS, ids=lambda path: path.stem)
def test_a_seed_is_answered(seed: Path) -> None:
    attempt(seed.read_text())


def test_there_are_seeds() -> None:
    assert len(_SEEDS) > 20


@given(st.text(max_size=60))
@settings(deadline=None)
def test_any_text_is_answered(text: str) -> None:
    attempt(text)


_TOKENS = (
    "self", "oldSelf", "d", ".", "?", "[", "]", "(", ")", "{", "}", ",", ":", "+", "-", "*", "/",
    "%", "==", "!=", "<", ">=", "&&", "||", "!", "in", "1", "2u", "1.5", "'a'", "b'a'", "r'\\d'",
    "true", "null", "x", "s", "l", "m", "all", "map", "filter", "exists", "optMap", "orValue",
    "size", "has", "type", "int", "string", "duration", "timestamp", "quantity", "ip", "sortBy",
    "format", "matches", "split", "join", "sum", "optional.none()", "\n", "transformMap", "dyn",
)  # fmt: skip


@given(st.lists(st.sampled_from(_TOKENS), max_size=25))
@settings(deadline=None)
def test_any_sequence_of_tokens_is_answered(tokens: list[str]) -> None:
    attempt(" ".join(tokens))
    attempt("".join(tokens))


def _mutated(source: random.Random, seeds: list[str]) -> str:
    text = source.choice(seeds)
    for _ in range(source.randint(1, 4)):
        at = source.randint(0, len(text))
        action = source.randint(0, 4)
        if action == 0:
            text = text[:at] + source.choice(_TOKENS) + text[at:]
        elif action == 1:
            text = text[:at] + text[at + source.randint(1, 5) :]
        elif action == 2:
            other = source.choice(seeds)
            text = text[:at] + other[source.randint(0, len(other)) :]
        elif action == 3:
            end = source.randint(at, len(text))
            text = text[:end] + text[at:end] * source.randint(1, 3) + text[end:]
        else:
            text = text[:at] + chr(source.choice((0, 9, 34, 39, 92, 255, 0x1F600))) + text[at:]
    return text[:5000]


def test_mutated_seeds_are_answered(soak: bool) -> None:
    source = random.Random() if soak else random.Random(20)
    seeds = [path.read_text() for path in _SEEDS]
    for _ in range(200_000 if soak else 400):
        attempt(_mutated(source, seeds))
