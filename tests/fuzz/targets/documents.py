# SPDX-License-Identifier: Apache-2.0
"""JSON, YAML, protobuf and selectors: what clients send as bodies and in queries."""

import json

from tests.fuzz.target import Target, corpus
from tests.unit.schema.wire import protobuf_encoder as encoder

from rdd.api import decode
from rdd.api.errors import BadRequest
from rdd.api.fieldselectors import parse_field_selector
from rdd.api.selectors import parse_label_selector
from rdd.schema.builtin import typed
from rdd.schema.wire import protobuf

DEFINITIONS = (
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.rbac.v1.RoleBinding",
)


def _json(data: bytes) -> None:
    try:
        value = decode.decode_json(data)
    except BadRequest:
        return
    decode.find_duplicate_keys(data, value)
    assert decode.decode_json(json.dumps(value, allow_nan=False).encode()) == value


def _yaml(data: bytes) -> None:
    try:
        value = decode.decode_yaml(data).value
        written = decode.encode_yaml(value)
    except BadRequest:
        return
    assert decode.decode_yaml(written).value == value, written


def _protobuf(data: bytes) -> None:
    try:
        found = protobuf.decode(data)
        for definition in DEFINITIONS:
            typed.decode_typed(typed.shape(definition), dict(found), unknown=[])
    except BadRequest:
        pass


def _selectors(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in (parse_label_selector, parse_field_selector):
        try:
            found = parse(text)
        except BadRequest:
            continue
        parse(str(found))


def _protobuf_seeds() -> list[bytes]:
    metadata = {"name": "a", "labels": {"x": "y"}, "uid": "u"}
    return [
        encoder.body(DEFINITIONS[0], {"metadata": metadata, "data": {"k": "v"}}),
        encoder.body(DEFINITIONS[1], {"metadata": metadata, "data": {"k": "dg=="}}),
        encoder.envelope(encoder.delimited(1, b"\x0a\x01a"), "ConfigMap"),
        encoder.envelope(b"", "Unknown"),
    ]


TARGETS = (
    Target("json", _json, corpus("json"), (b"{", b"[", b'"\\ud800"', b"1e999", b"null", b":")),
    Target("yaml", _yaml, corpus("yaml"), (b"&a ", b"*a", b"!!", b"- ", b": ", b"|", b"<<: ")),
    Target("protobuf", _protobuf, _protobuf_seeds(), (b"\x0a", b"\xff\xff\xff\xff\x0f", b"k8s\0")),
    Target(
        "selectors",
        _selectors,
        [*corpus("labelselector"), *corpus("fieldselector")],
        (b" in (", b"notin", b"!", b"==", b"!=", b",", b"\\"),
    ),
)
