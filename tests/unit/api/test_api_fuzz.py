# SPDX-License-Identifier: Apache-2.0
"""Texts of clients, mutated: whatever arrives, parsers answer or refuse, they never fail.

Starting points are in tests/data/fuzz. A run takes a second, `make soak` a few minutes.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rdd.api import decode, timestamps
from rdd.api.errors import BadRequest
from rdd.api.fieldselectors import parse_field_selector
from rdd.api.quantity import Quantity, QuantityError
from rdd.api.selectors import parse_label_selector

CORPUS = Path(__file__).parents[2] / "data" / "fuzz"
ROUNDS, ROUNDS_IN_SOAK = 1500, 200_000
SEED = 1


def _json(data: bytes) -> None:
    value = decode.decode_json(data)
    duplicates = decode.find_duplicate_keys(data, value)
    again = json.dumps(value, allow_nan=False).encode()
    assert decode.decode_json(again) == value
    assert duplicates or decode.decode_json(data) == value


def _yaml(data: bytes) -> None:
    value = decode.decode_yaml(data).value
    written = decode.encode_yaml(value)
    assert decode.decode_yaml(written).value == value, written


def _label_selector(data: bytes) -> None:
    selector = parse_label_selector(data.decode("utf-8", "replace"))
    assert parse_label_selector(str(selector)) == selector


def _field_selector(data: bytes) -> None:
    selector = parse_field_selector(data.decode("utf-8", "replace"))
    selector.matches({"metadata.name": "a"})
    assert len(parse_field_selector(str(selector)).terms) == len(selector.terms)


def _quantity(data: bytes) -> None:
    quantity = Quantity.parse(data.decode("utf-8", "replace"))
    assert Quantity.parse(str(quantity)) == quantity
    quantity.value()
    quantity.as_approximate_float()


def _timestamp(data: bytes) -> None:
    normal = timestamps.normalise(data.decode("utf-8", "replace"))
    assert normal is None or normal.startswith("-") or timestamps.normalise(normal) == normal


# parser → how it refuses
TARGETS: dict[str, tuple[Callable[[bytes], None], type[Exception]]] = {
    "json": (_json, BadRequest),
    "yaml": (_yaml, BadRequest),
    "labelselector": (_label_selector, BadRequest),
    "fieldselector": (_field_selector, BadRequest),
    "quantity": (_quantity, QuantityError),
    "timestamp": (_timestamp, ValueError),
}


def _mutated(data: bytes, others: list[bytes], choose: random.Random) -> bytes:
    """The text with one to four bytes, ranges or pieces of other texts changed."""
    out = bytearray(data)
    for _ in range(choose.randint(1, 4)):
        at = choose.randint(0, len(out))
        end = min(len(out), at + choose.randint(0, 5))
        other = choose.choice(others)
        start = choose.randint(0, len(other))
        replacement = choose.choice(
            [
                b"",
                bytes([choose.randrange(256)]),
                bytes(out[at:end]) * 3,
                other[start : start + choose.randint(0, 12)],
                choose.choice(
                    [b"\\", b'"', b":", b"\n", b"\0", b"&a ", b"*a", b"<<", b"e9", b"  "]
                ),
            ]
        )
        out[at:end] = replacement
    return bytes(out)


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_texts_never_crash(target: str, soak: bool) -> None:
    seeds = [p.read_bytes() for p in sorted((CORPUS / target).glob("*.txt"))]
    run, refusal = TARGETS[target]
    choose = random.Random(SEED)
    accepted = 0
    pool = list(seeds)
    for _ in range(ROUNDS_IN_SOAK if soak else ROUNDS):
        data = _mutated(choose.choice(pool), seeds, choose)
        try:
            run(data)
        except refusal as e:
            assert str(e), data
        except Exception as e:
            raise AssertionError(f"{data!r} fails with {e!r}") from e
        else:
            accepted += 1
            if len(pool) < 500:
                pool.append(data)
    assert accepted


@pytest.mark.parametrize("target", TARGETS)
def test_seed_texts_never_crash(target: str) -> None:
    run, refusal = TARGETS[target]
    for path in sorted((CORPUS / target).glob("*.txt")):
        try:
            run(path.read_bytes())
        except refusal as e:
            assert str(e), path
