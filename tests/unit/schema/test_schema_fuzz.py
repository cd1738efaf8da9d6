# SPDX-License-Identifier: Apache-2.0
"""Mutated definitions and objects: always an answer, never an exception.

The corpus has definitions in the style of well-known operators, each with
objects. A mutated definition goes through what the server does with it:
decoding, defaults, validation; if it is accepted, mutated objects are pruned,
defaulted and validated, and the definition is published. The seed is fixed;
`make soak` runs long and with a new seed.
"""

import copy
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rdd.api.errors import BadRequest
from rdd.schema.builtin.typed import decode_typed, shape
from rdd.schema.columns import Columns
from rdd.schema.crd import validation as crds
from rdd.schema.defaults import apply_defaults
from rdd.schema.node import compile_node
from rdd.schema.openapi.documents import (
    crd_definitions,
    crd_kind,
    openapi_v2_document,
    openapi_v3_document,
)
from rdd.schema.prune import prune
from rdd.schema.validate import compile_validator

CORPUS = sorted((Path(__file__).parents[2] / "data" / "fuzz" / "schema").glob("*.json"))
DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
POOL: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 0.5, 1e300, "", "x", "v1", "object", "array",
    "string", "integer", "map", "set", "atomic", ".spec.x", "^(", "date-time", "A b", "\u0000", [],
    {}, [[]], [None], ["x", "x"], {"x": None}, {"type": "object"}, {"type": "string", "default": 1},
    {"x-kubernetes-preserve-unknown-fields": True}, {"$ref": "#/x"}, {"enum": [None, 1, {}]},
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys or positions."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict | list):
            keys = list(item) if isinstance(item, dict) else range(len(item))
            for key in keys:
                yield item, key
                pending.append(item[key])


def mutate(value: Any, chance: random.Random) -> Any:
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        found = list(places(value))
        if not found:
            break
        holder, key = chance.choice(found)
        other_holder, other = chance.choice(found)
        action = chance.randrange(5)
        if action == 0:
            holder[key] = copy.deepcopy(chance.choice(POOL))
        elif action == 1:
            del holder[key]
        elif action == 2:
            holder[key] = copy.deepcopy(other_holder[other])
        elif action == 3:
            holder[key] = [holder[key]]
        elif isinstance(holder, dict):
            holder[chance.choice(["x", "properties", "items", "not", "allOf", "default"])] = (
                copy.deepcopy(other_holder[other])
            )
    return value


def exercise(crd: Any, objects: list[Any], chance: random.Random) -> bool:
    """Everything a server does; returns whether the definition was accepted."""
    try:
        crd = decode_typed(shape(DEFINITION), crd, unknown=[])
    except BadRequest:
        return False
    old = copy.deepcopy(crd)
    crds.normalise(crd)
    crds.prepare_for_create(crd)
    crds.prepare_for_update(old, crd)
    errors = crds.crd_errors(crd)
    for error in [*errors, *crds.crd_update_errors(crd, old)]:
        assert str(error)
        assert error.reason
    crds.crd_warnings(crd)
    if errors:
        return False
    spec = crd["spec"]
    for version in spec["versions"]:
        kind = crd_kind(spec, version)
        json.dumps(openapi_v3_document([kind], crd_definitions(spec, version)))
        json.dumps(openapi_v2_document([kind], crd_definitions(spec, version, v2=True)))
        node = compile_node(version["schema"]["openAPIV3Schema"])
        validator = compile_validator(node)
        columns = Columns(version.get("additionalPrinterColumns") or ())
        for obj in objects:
            new = mutate(obj, chance)
            if not isinstance(new, dict):
                continue
            prune(node, new, unknown=[])
            apply_defaults(node, new)
            for error in [*validator(new), *validator(new, obj)]:
                assert str(error)
            if isinstance(new.get("metadata") or {}, dict):
                columns.cells(new, age=lambda text: None)
    return True


def run(chance: random.Random, seconds: float, rounds: int) -> int:
    seeds = [json.loads(path.read_text()) for path in CORPUS]
    accepted = done = 0
    end = time.monotonic() + seconds
    while done < rounds and time.monotonic() < end:
        seed = seeds[done % len(seeds)]
        mutated = mutate(seed["crd"], chance) if chance.random() < 0.8 else seed["crd"]
        try:
            accepted += exercise(mutated, seed["objects"], chance)
        except Exception:
            print(json.dumps(mutated))
            raise
        done += 1
    return accepted


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_the_corpus_is_accepted(path: Path) -> None:
    seed = json.loads(path.read_text())
    assert exercise(seed["crd"], seed["objects"], random.Random(1))


def test_mutated_definitions_get_an_answer(soak: bool) -> None:
    chance = random.Random() if soak else random.Random(20260101)
    accepted = run(chance, 300 if soak else 30, 10**9 if soak else 500)
    assert accepted > 50
