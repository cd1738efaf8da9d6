# SPDX-License-Identifier: Apache-2.0
"""Protobuf bodies: what is in them arrives, and what is no message is refused."""

import base64
import sys
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import run_program
from tests.unit.schema.wire import protobuf_encoder as encoder
from tests.unit.schema.wire.protobuf_encoder import SCHEMA, delimited, envelope, integer, varint

from rdd.api import timestamps
from rdd.api.errors import BadRequest
from rdd.schema.builtin import field_numbers, notation, typed
from rdd.schema.builtin.notation import Type
from rdd.schema.wire import protobuf

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
CONFIG_MAP = CORE + "ConfigMap"
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"

STRUCTS = [n for n in notation.names() if n in field_numbers.table()]
KINDS = [n for n in STRUCTS if notation.struct(n).kind]

# `kubectl create configmap cap --from-literal=a=b`
CONFIG_MAP_OF_KUBECTL = bytes.fromhex(
    "6b387300 0a0f 0a027631 1209436f6e6669674d6170 121d 0a13 0a03636170"
    "1200 1a00 2200 2a00 3200 3800 4200 1206 0a0161 120162 1a00 2200"
)
# `kubectl create rolebinding cap --role=r --serviceaccount=default:robot`
BINDING_OF_KUBECTL = bytes.fromhex(
    "6b387300 0a2b 0a1c 726261632e617574686f72697a6174696f6e2e6b38732e696f2f7631"
    "120b 526f6c6542696e64696e67 125f 0a13 0a03636170 1200 1a00 2200 2a00 3200 3800 4200"
    "1222 0a0e 536572766963654163636f756e74 1200 1a05 726f626f74 2207 64656661756c74"
    "1a24 0a19 726261632e617574686f72697a6174696f6e2e6b38732e696f 1204 526f6c65 1a0172"
    "1a00 2200"
)


def decoded(body: bytes, definition: str) -> dict[str, Any]:
    """A body after both decoders."""
    unknown: list[str] = []
    found = typed.decode_typed(typed.shape(definition), protobuf.decode(body), unknown=unknown)
    assert not unknown
    return found


def config_map(content: bytes) -> dict[str, Any]:
    return protobuf.decode(envelope(content, "ConfigMap"))


# -------------------------------------------------------------------- field numbers


def test_every_struct_but_lists_has_numbers() -> None:
    missing = set(notation.names()) - set(field_numbers.table())
    assert all(name.endswith("List") for name in missing)
    assert set(field_numbers.table()) <= set(notation.names())


@pytest.mark.parametrize("name", STRUCTS)
def test_every_member_has_a_number_of_its_own(name: str) -> None:
    declared = notation.struct(name)
    numbers = field_numbers.table()[name]
    in_envelope = {"kind", "apiVersion"} if declared.kind else set()
    assert set(numbers) == {member.name for member in declared.fields} - in_envelope
    paths = list(numbers.values())
    assert len(set(paths)) == len(paths)
    # A field is either a member or a message with embedded members.
    assert not {path[:-1] for path in paths if len(path) > 1} & set(paths)


# -------------------------------------------------------------------- what kubectl sends


def test_config_map_of_kubectl() -> None:
    assert decoded(CONFIG_MAP_OF_KUBECTL, CONFIG_MAP) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "cap"},
        "data": {"a": "b"},
    }


def test_role_binding_of_kubectl() -> None:
    assert decoded(BINDING_OF_KUBECTL, "io.k8s.api.rbac.v1.RoleBinding") == {
        "kind": "RoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "cap"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    }


def test_encoder_matches_kubectl() -> None:
    # Except that kubectl puts the message before its empty encoding and type, as here.
    obj = {"metadata": {"name": "cap"}, "data": {"a": "b"}}
    assert encoder.body(CONFIG_MAP, obj) == CONFIG_MAP_OF_KUBECTL


# -------------------------------------------------------------------- round trips

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
seconds = st.integers(timestamps.parse("0001-01-01T00:00:01Z")[0], 253402300799)
json_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
numbers = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": text,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": numbers,
    "bytes": st.binary(max_size=5).map(lambda raw: base64.b64encode(raw).decode()),
    "Time": seconds.map(timestamps.text),
    "MicroTime": st.builds(timestamps.micro_text, seconds, st.integers(0, 999_999)),
    "Quantity": st.sampled_from(["0", "1", "1500m", "2Gi", "1k"]),
    "JSON": json_values,
    "Raw": st.dictionaries(text, json_values, max_size=2),
    "FieldsV1": st.dictionaries(text, json_values, max_size=2),
}


@cache
def values(type_: Type, levels: int) -> st.SearchStrategy[Any]:
    """Values of a type, with schemas nested up to some levels."""
    if type_.form in SCALARS:
        return SCALARS[type_.form]
    if type_.form == "struct":
        return structs(type_.struct, levels)
    if type_.form == "list" and type_.item is not None:
        return st.lists(values(type_.item, levels), max_size=2)
    if type_.form == "map" and type_.item is not None:
        return st.dictionaries(text, values(type_.item, levels), max_size=2)
    schema = structs(SCHEMA, levels)
    return (
        schema
        | {
            "JSONSchemaPropsOrBool": st.booleans(),
            "JSONSchemaPropsOrArray": st.lists(schema, min_size=1, max_size=2),
            "JSONSchemaPropsOrStringArray": st.lists(text, min_size=1, max_size=2),
        }[type_.form]
    )


@cache
def structs(name: str, levels: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of a struct, in which any member may be missing."""
    levels -= name == SCHEMA
    members = {}
    for member in notation.struct(name).fields:
        leads_on = "JSONSchema" in str(member.type) and name == SCHEMA
        if member.name in field_numbers.table()[name] and not (leads_on and levels <= 0):
            members[member.name] = values(member.type, levels)
    chosen = st.sets(st.sampled_from(sorted(members)), max_size=6) if members else st.just(set())
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({k: members[k] for k in sorted(keys)}))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_kind_arrives_as_it_would_from_json(data: st.DataObject) -> None:
    definition = data.draw(st.sampled_from(KINDS))
    obj = data.draw(structs(definition))
    body = encoder.body(definition, obj)
    declared = notation.struct(definition)
    json_like = {"kind": declared.kind, "apiVersion": declared.api_version, **obj}
    expected = typed.decode_typed(typed.shape(definition), json_like, unknown=[])
    assert decoded(body, definition) == expected


@settings(max_examples=40, deadline=None)
@given(schema=structs(SCHEMA, 3))
def test_schemas_of_definitions_arrive(schema: dict[str, Any]) -> None:
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    obj = {"spec": {"group": "g", "versions": [version]}}
    expected = typed.decode_typed(typed.shape(CRD), dict(obj), unknown=[])
    assert decoded(encoder.body(CRD, obj), CRD) == expected


# -------------------------------------------------------------------- single values


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", {}, id="nothing"),
        pytest.param(integer(4, 0), {"immutable": False}, id="false of a pointer stays"),
        pytest.param(integer(4, 7), {"immutable": True}, id="any number but zero is true"),
        pytest.param(delimited(2, b""), {"data": {"": ""}}, id="empty entry"),
        pytest.param(delimited(3, delimited(1, b"k")), {"binaryData": {"k": ""}}, id="only a key"),
        pytest.param(
            delimited(2, delimited(2, b"v") + delimited(1, b"k")),
            {"data": {"k": "v"}},
            id="value before key",
        ),
        pytest.param(
            delimited(2, delimited(1, b"k") + delimited(2, b"a\xff\xfe\xe2\x82z")),
            {"data": {"k": "a\ufffd\ufffd\ufffd\ufffdz"}},
            id="each byte that is no UTF-8 is replaced",
        ),
        pytest.param(
            delimited(1, delimited(1, b"a")) + delimited(1, delimited(3, b"n")),
            {"metadata": {"name": "a", "namespace": "n"}},
            id="messages that come twice are merged",
        ),
        pytest.param(
            delimited(1, delimited(1, b"a") + delimited(1, b"b")),
            {"metadata": {"name": "b"}},
            id="of scalars that come twice the last counts",
        ),
        pytest.param(
            delimited(1, delimited(8, b"") + delimited(9, integer(1, -1) + integer(2, 5))),
            {
                "metadata": {
                    "creationTimestamp": None,
                    "deletionTimestamp": "1969-12-31T23:59:59Z",
                }
            },
            id="no time and a time before the epoch",
        ),
    ],
)
def test_values(content: bytes, expected: dict[str, Any]) -> None:
    assert config_map(content) == {"kind": "ConfigMap", "apiVersion": "v1", **expected}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(integer(2, 999_999_999), "1970-01-01T00:00:00.999999Z", id="truncated"),
        pytest.param(
            integer(1, 1) + integer(2, -1_000), "1970-01-01T00:00:00.999999Z", id="negative"
        ),
        pytest.param(integer(1, 1) + integer(2, -999), "1970-01-01T00:00:01.000000Z", id="to zero"),
        pytest.param(b"", None, id="none"),
    ],
)
def test_micro_times(content: bytes, expected: str | None) -> None:
    lease = envelope(delimited(2, delimited(4, content)), "Lease", "coordination.k8s.io/v1")
    assert protobuf.decode(lease)["spec"] == {"renewTime": expected}


def test_embedded_rules_are_flat() -> None:
    rule = delimited(1, b"apps") + delimited(2, b"v1") + delimited(3, b"pods") + delimited(4, b"*")
    with_operations = delimited(1, b"CREATE") + delimited(2, rule)
    named = delimited(1, b"n") + delimited(2, with_operations)
    policy = delimited(2, delimited(2, delimited(3, named)))
    body = envelope(policy, "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1")
    assert protobuf.decode(body)["spec"]["matchConstraints"]["resourceRules"] == [
        {
            "resourceNames": ["n"],
            "operations": ["CREATE"],
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "scope": "*",
        }
    ]


def test_unknown_fields_are_skipped() -> None:
    strange = (
        integer(99, 2**64 - 1)
        + varint(98 << 3 | 1) + b"8 octets"
        + delimited(97, b"some")
        + varint(96 << 3 | 5) + b"four"
        + varint(95 << 3 | 3) + varint(1 << 3 | 3) + integer(1, 1) + varint(1 << 3 | 4)
        + varint(95 << 3 | 4)
    )  # fmt: skip
    named = delimited(1, strange + delimited(1, b"a") + strange)
    assert config_map(strange + named + strange)["metadata"] == {"name": "a"}


# -------------------------------------------------------------------- envelopes


def test_kind_and_api_version_may_be_left_out_of_the_envelope() -> None:
    body = envelope(integer(4, 1), "", "")
    assert protobuf.decode(body, kind="ConfigMap", api_version="v1")["immutable"] is True
    with pytest.raises(BadRequest, match=r"^Object 'Kind' is missing in "):
        protobuf.decode(body)


def test_an_envelope_without_a_message_is_an_empty_object() -> None:
    body = b"k8s\0" + delimited(1, delimited(1, b"v1") + delimited(2, b"ConfigMap"))
    assert protobuf.decode(body) == {"kind": "ConfigMap", "apiVersion": "v1"}


@pytest.mark.parametrize("kind", ["Pod", "ObjectMeta", "ConfigMapList", ""])
def test_of_a_kind_without_shape_only_the_type_is_read(kind: str) -> None:
    found = protobuf.decode(envelope(b"\xff", kind, "v9"), kind="Expected", api_version="v1")
    assert found == {"kind": kind or "Expected", "apiVersion": "v9"}


@pytest.mark.parametrize("version", ["v1", "meta.k8s.io/v1", "rbac.authorization.k8s.io/v1", ""])
def test_delete_options_belong_to_every_group(version: str) -> None:
    obj = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]}
    body = envelope(encoder.message(META + "DeleteOptions", obj), "DeleteOptions", version)
    assert protobuf.decode(body).items() >= obj.items()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "empty data", id="nothing"),
        pytest.param(
            b'{"kind":"ConfigMap"}',
            "provided data does not appear to be a protobuf message, "
            "expected prefix [107 56 115 0]",
            id="JSON",
        ),
        pytest.param(b"k8s\0", "empty body", id="prefix only"),
        pytest.param(b"k8s\0\x0a", "unexpected EOF", id="tag only"),
        pytest.param(b"k8s\0\x0a\x05v1", "unexpected EOF", id="cut off"),
        pytest.param(b"k8s\0\x0f", "proto: wrong wireType = 7 for field TypeMeta", id="bad type"),
        pytest.param(b"k8s\0\x7f", "proto: illegal wireType 7", id="bad type, unknown field"),
        pytest.param(b"k8s\0\x00", "proto: Unknown: illegal tag 0 (wire type 0)", id="field 0"),
        pytest.param(
            b"k8s\0\x0c", "proto: Unknown: wiretype end group for non-group", id="end group"
        ),
        pytest.param(b"k8s\0" + b"\xff" * 11, "proto: integer overflow", id="long number"),
        pytest.param(
            b"k8s\0\x12" + varint(-1),
            "proto: negative length found during unmarshaling",
            id="negative length",
        ),
    ],
)
def test_rejects_a_missing_envelope(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        protobuf.decode(body, kind="ConfigMap", api_version="v1")
    assert refused.value.message == message
    assert not isinstance(refused.value, typed.DecodeError)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        pytest.param(delimited(1, b"\x0a"), "unexpected EOF", id="cut off"),
        pytest.param(integer(1, 1), "proto: wrong wireType = 0 for field ObjectMeta", id="wrong"),
        pytest.param(
            delimited(1, integer(5, 1)), "proto: wrong wireType = 0 for field UID", id="wrong UID"
        ),
        pytest.param(
            delimited(1, b"\x02"), "proto: ObjectMeta: illegal tag 0 (wire type 2)", id="field 0"
        ),
        pytest.param(varint(99 << 3 | 5) + b"abc", "unexpected EOF", id="short fixed32"),
        pytest.param(varint(99 << 3 | 3), "unexpected EOF", id="open group"),
        pytest.param(
            delimited(1, delimited(9, integer(1, 2**40))),
            "Time.MarshalJSON: year outside of range [0,9999]",
            id="far future",
        ),
        pytest.param(
            delimited(1, delimited(17, delimited(7, delimited(1, b"{")))),
            "unexpected end of JSON input",
            id="JSON inside",
        ),
    ],
)
def test_malformed_messages_are_rejected_with_their_kind(content: bytes, cause: str) -> None:
    with pytest.raises(typed.DecodeError) as refused:
        protobuf.decode(envelope(content, "ConfigMap"), kind="Secret", api_version="v1")
    assert refused.value.cause == cause
    prefix = 'ConfigMap in version "v1" cannot be handled as a Secret: '
    assert refused.value.message == prefix + cause


@pytest.mark.parametrize("bits", ["7ff8000000000000", "7ff0000000000000", "fff0000000000000"])
def test_schemas_have_finite_numbers(bits: str) -> None:
    schema = varint(9 << 3 | 1) + bytes.fromhex(bits)[::-1]
    version = delimited(4, delimited(1, schema))
    body = envelope(
        delimited(2, delimited(7, version)), "CustomResourceDefinition", "apiextensions.k8s.io/v1"
    )
    with pytest.raises(typed.DecodeError, match=r"json: unsupported value: (NaN|[+-]Inf)"):
        protobuf.decode(body)


def test_depth_is_limited() -> None:
    schema = b""
    for _ in range(2 * protobuf.MAX_DEPTH):
        schema = delimited(28, schema)
    body = envelope(
        delimited(2, delimited(7, delimited(4, delimited(1, schema)))),
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1",
    )
    with pytest.raises(typed.DecodeError, match="proto: exceeded max depth"):
        protobuf.decode(body)


# -------------------------------------------------------------------- never a crash


def attempt(body: bytes) -> None:
    """Whatever the bytes are: an object or a refusal, and in both decoders."""
    try:
        found = protobuf.decode(body, kind="ConfigMap", api_version="v1")
        definition = next(
            (n for n in KINDS if notation.struct(n).api_version == found["apiVersion"]
             and notation.struct(n).kind == found["kind"]), CONFIG_MAP,
        )  # fmt: skip
        typed.decode_typed(typed.shape(definition), found, unknown=[])
    except BadRequest:
        pass


@pytest.mark.parametrize("body", [CONFIG_MAP_OF_KUBECTL, BINDING_OF_KUBECTL], ids=["cm", "rb"])
def test_bodies_that_end_early_or_have_one_wrong_byte(body: bytes) -> None:
    for position in range(len(body)):
        attempt(body[:position])
        for wrong in (0x00, 0x01, 0x07, 0x0B, 0x7F, 0x80, 0xFF, body[position] ^ 1):
            attempt(body[:position] + bytes([wrong]) + body[position + 1 :])


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=60), definition=st.sampled_from(KINDS))
def test_random_messages(content: bytes, definition: str) -> None:
    declared = notation.struct(definition)
    attempt(envelope(content, declared.kind, declared.api_version))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_messages(data: st.DataObject) -> None:
    definition = data.draw(st.sampled_from(KINDS))
    body = bytearray(encoder.body(definition, data.draw(structs(definition))))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    attempt(bytes(body))


def test_a_server_that_sees_no_protobuf_does_not_load_the_decoder() -> None:
    code = (
        "import sys, rdd.apiserver.server\n"
        "print([m for m in sys.modules if 'proto' in m and m.startswith('rdd.')"
        " or 'field_numbers' in m])"
    )
    run = run_program([sys.executable, "-c", code], check=True)
    assert run.stdout == "[]\n"
