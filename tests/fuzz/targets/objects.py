# SPDX-License-Identifier: Apache-2.0
"""Patches, CEL, schemas of CRDs and templates: small languages that users write."""

import json
import random

from tests.fuzz.target import CORPUS, Target, corpus
from tests.unit.api.test_patch_strategic import NODE
from tests.unit.cel import test_cel_fuzz as cel_fuzz
from tests.unit.schema import test_schema_fuzz as schema_fuzz

from rdd.api import decode, jsonpatch, mergepatch, strategic
from rdd.api.errors import ApiError, BadRequest
from rdd.vm.template import TemplateError, dump, load, parse, validate

OBJECT = {"metadata": {"name": "a", "labels": {"x": "y"}}, "l": [1, {"b": 2}], "n": None}
TEMPLATES = CORPUS.parent / "templates"


def _patch(data: bytes) -> None:
    try:
        patch = decode.decode_json(data)
    except BadRequest:
        return
    for apply in (
        lambda: jsonpatch.apply_json_patch(OBJECT, patch),
        lambda: mergepatch.apply_merge_patch(dict(OBJECT), patch),
        lambda: strategic.apply_strategic_patch(dict(OBJECT), patch, NODE),
    ):
        try:
            json.dumps(apply())
        except ApiError as error:
            assert str(error)


def _cel(data: bytes) -> None:
    cel_fuzz.attempt(data.decode("utf-8", "replace"))


def _schema(data: bytes) -> None:
    try:
        found = decode.decode_json(data)
    except BadRequest:
        return
    if isinstance(found, dict) and isinstance(found.get("crd"), dict):
        objects = found.get("objects")
        listed = (
            [one for one in objects if isinstance(one, dict)] if isinstance(objects, list) else []
        )
        schema_fuzz.exercise(found["crd"], listed, random.Random(1))


def _template(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        found = parse(text)
    except TemplateError as error:
        assert error.problems
        return
    assert load(dump(found)) == found
    try:
        validate(text)
    except TemplateError as error:
        assert error.problems


PATCHES = [
    b'[{"op": "add", "path": "/metadata/labels/z", "value": [1]}]',
    b'[{"op": "move", "from": "/l/0", "path": "/l/-"}, {"op": "test", "path": "", "value": {}}]',
    b'{"metadata": {"labels": null, "$patch": "replace"}, "$retainKeys": ["metadata"]}',
    b'{"$setElementOrder/l": [1], "$deleteFromPrimitiveList/l": [1], "l": [{"$patch": "delete"}]}',
    *(path.read_bytes() for path in sorted(CORPUS.glob("patch-*.json"))),
]

TARGETS = (
    Target("patch", _patch, PATCHES, (b'"$patch"', b'"op"', b'"path"', b"/-", b"~1", b"null")),
    Target("cel", _cel, corpus("cel"), (b"self.", b".map(", b"==", b"?", b"[", b"'", b"9" * 20)),
    Target(
        "schema",
        _schema,
        corpus("schema"),
        (b'"properties"', b'"items"', b'"$ref"', b'"default"', b'"x-kubernetes-', b"{}"),
    ),
    Target(
        "template",
        _template,
        [path.read_bytes() for path in sorted(TEMPLATES.glob("*.yaml"))]
        + [b"vmType: qemu\ncpus: 1\nprovision:\n- script: '{{.Param.X}}'\nparam: {X: \"a'b\"}\n"],
        (b"{{.Param.X}}", b'{{"{{"}}', b"mounts:\n- ", b"portForwards:\n- ", b": ", b"\n  "),
    ),
)
