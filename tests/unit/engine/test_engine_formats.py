# SPDX-License-Identifier: Apache-2.0
"""Formats of engines: output frames, image names, protobuf messages, mirrors, credentials."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.controllers.containers.container_conditions import STATES, container_conditions
from rdd.controllers.containers.engine.moby_objects import (
    container_mirror,
    image_mirrors,
    volume_mirror,
)
from rdd.engine import EngineError, EngineProtocolError, credentials
from rdd.engine.frames import Chunk, Deframer
from rdd.engine.protobuf import Message, field
from rdd.engine.references import InvalidReference, parse
from rdd.kinds.container import Container
from rdd.kinds.crd import definition_of
from rdd.kinds.image import Image
from rdd.kinds.volume import Volume

# -- frames


def frame(stream: int, data: bytes) -> bytes:
    return bytes((stream, 0, 0, 0)) + len(data).to_bytes(4, "big") + data


@given(
    st.lists(st.tuples(st.sampled_from((1, 2)), st.binary(max_size=50))),
    st.lists(st.integers(1, 20), min_size=1),
)
@settings(max_examples=100, deadline=None)
def test_frames_are_decoded_from_any_fragmentation(
    frames: Sequence[tuple[int, bytes]], cuts: Sequence[int]
) -> None:
    data = b"".join(frame(*found) for found in frames)
    deframer, found, at, i = Deframer(), [], 0, 0
    while at < len(data):
        size = cuts[i % len(cuts)]
        found += deframer.feed(data[at : at + size])
        at, i = at + size, i + 1
    for stream in (1, 2):
        expected = b"".join(text for number, text in frames if number == stream)
        assert b"".join(chunk.data for chunk in found if chunk.stream == stream) == expected


def test_stdin_in_a_frame_counts_as_output() -> None:
    assert Deframer().feed(frame(0, b"x")) == [Chunk(1, b"x")]


@pytest.mark.parametrize(
    "data", [b"plain text of a terminal", frame(9, b"x"), b"\1\0\0\0\xff\xff\xff\xff"]
)
def test_rejects_malformed_frames(data: bytes) -> None:
    with pytest.raises(EngineProtocolError):
        Deframer().feed(data)


def test_error_frame_is_raised_when_complete() -> None:
    deframer = Deframer()
    data = frame(1, b"a") + frame(3, b"log driver failed")
    assert deframer.feed(data[:20]) == [Chunk(1, b"a")]
    with pytest.raises(EngineError, match="log driver failed"):
        deframer.feed(data[20:])


# -- references


@pytest.mark.parametrize(
    ("text", "registry", "path", "familiar", "tag"),
    [
        ("alpine", "docker.io", "library/alpine", "alpine", "latest"),
        ("alpine:3.20", "docker.io", "library/alpine", "alpine", "3.20"),
        ("library/alpine", "docker.io", "library/alpine", "alpine", "latest"),
        ("docker.io/a/b:c", "docker.io", "a/b", "a/b", "c"),
        ("index.docker.io/library/x", "docker.io", "library/x", "x", "latest"),
        ("localhost/x", "localhost", "x", "localhost/x", "latest"),
        ("localhost:5000/a/b/c:1", "localhost:5000", "a/b/c", "localhost:5000/a/b/c", "1"),
        ("Host/x", "Host", "x", "Host/x", "latest"),
        ("[::1]:5000/x", "[::1]:5000", "x", "[::1]:5000/x", "latest"),
    ],
)
def test_parses_references(text: str, registry: str, path: str, familiar: str, tag: str) -> None:
    found = parse(text)
    assert (found.registry, found.path, found.familiar, found.tag) == (
        registry, path, familiar, tag,
    )  # fmt: skip


def test_digest_replaces_the_tag() -> None:
    digest = "sha256:" + "a" * 64
    found = parse(f"x/y@{digest}")
    assert (found.version, str(found)) == (digest, f"x/y@{digest}")
    assert parse(f"x:1@{digest}").version == digest


@pytest.mark.parametrize(
    "text",
    ["", ":", "x:", "/x", "x/", "UPPER", "a b", "x:a:b", "x@sha256:12", "x@", "a//b", "-x",
     "x" * 300, "x:" + "t" * 129, "h ost.com/x"],
)  # fmt: skip
def test_rejects_invalid_references(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse(text)


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        found = parse(text)
    except InvalidReference:
        return
    assert parse(str(found)) == found


# -- messages


@given(
    st.dictionaries(
        st.integers(1, 500),
        st.one_of(st.integers(1, 2**64 - 1), st.binary(min_size=1, max_size=300)),
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_messages_round_trip(fields: dict[int, int | bytes]) -> None:
    message = Message(b"".join(field(number, value) for number, value in fields.items()))
    for number, value in fields.items():
        found = message.integer(number) if isinstance(value, int) else message.bytes(number)
        assert found == value
    assert (message.text(999), message.integer(999), message.messages(999)) == ("", 0, [])


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_decoded_or_rejected(data: bytes) -> None:
    try:
        Message(data)
    except EngineProtocolError:
        pass


def test_maps_and_negative_numbers_in_messages() -> None:
    entry = field(1, "key") + field(2, "value")
    message = Message(field(4, entry) + field(5, 2**64 - 2))
    assert message.texts(4) == {"key": "value"}
    assert message.signed(5) == -2


# -- the status of mirrors for arbitrary responses

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
MEMBERS = (
    "Status", "Pid", "ExitCode", "FinishedAt", "StartedAt", "Error", "OOMKilled", "Running",
    "Health",
)  # fmt: skip
LIKELY = ("running", "paused", "2026-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z")
STATE = st.dictionaries(st.sampled_from(MEMBERS), JSON | st.sampled_from(LIKELY))


def check(schema: Any, value: Any, path: str = "") -> None:
    """Validate types, required members, enums and bounds."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    wanted: Any = kinds[schema["type"]]
    assert isinstance(value, wanted), f"{path}: {value!r}"
    if schema["type"] == "object":
        for name in schema.get("required", ()):
            assert name in value, f"{path}.{name}"
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            assert known, f"{path}.{name}"
            check(known, inner, f"{path}.{name}")
    elif schema["type"] == "array":
        for inner in value:
            check(schema["items"], inner, f"{path}[]")
    elif schema["type"] == "integer":
        bits = 31 if schema.get("format") == "int32" else 63
        assert -(2**bits) <= value < 2**bits, f"{path}: {value}"
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value!r}"


def status_schema(kind: type[Container | Image | Volume]) -> Any:
    (version,) = definition_of(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["status"]


@given(
    st.fixed_dictionaries(
        {"Id": st.just("ab")},
        optional={
            "Name": JSON, "Path": JSON, "Args": JSON, "Image": JSON, "Created": JSON,
            "Mounts": JSON | st.lists(st.just({"Type": "volume", "Name": "v"}) | JSON),
            "State": STATE,
            "Config": st.fixed_dictionaries(
                {}, optional={"Labels": JSON, "ExposedPorts": JSON, "Image": JSON}
            ),
            "NetworkSettings": st.fixed_dictionaries({}, optional={"Ports": JSON}) | JSON,
        },
    )
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_any_container_can_be_mirrored(found: Any) -> None:
    mirror = container_mirror(found)
    conditions = [
        condition.to_object(now="2026-01-01T00:00:00Z")
        for condition in container_conditions(mirror.status["status"], oom_killed=mirror.oom_killed)
    ]
    check(status_schema(Container), {**mirror.status, "conditions": conditions})
    assert mirror.status["status"] in STATES


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "Id": JSON, "RepoTags": JSON | st.lists(st.text(max_size=5)), "RepoDigests": JSON,
            "Architecture": JSON, "Os": JSON, "Size": JSON, "Created": JSON, "Config": JSON,
        },
    )
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_image_can_be_mirrored(found: Any) -> None:
    mirrors = image_mirrors(found)
    assert mirrors
    assert len({mirror.name for mirror in mirrors}) == len(mirrors)
    for mirror in mirrors:
        check(status_schema(Image), mirror.status)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("Name", "Driver", "Mountpoint", "Scope", "CreatedAt", "Labels", "Options"), JSON
        ),
    )
)
@settings(max_examples=200, deadline=None)
def test_any_volume_can_be_mirrored(found: Any) -> None:
    check(status_schema(Volume), volume_mirror(found).status)


def test_ports_are_summarised_as_docker_prints_them() -> None:
    ports = {
        "53/udp": None,
        "80/tcp": [
            {"HostIp": "0.0.0.0", "HostPort": "8080"},
            {"HostIp": "::", "HostPort": "8080"},
            {"HostIp": "", "HostPort": "81"},
        ],
    }
    status = container_mirror({"Id": "x", "NetworkSettings": {"Ports": ports}}).status
    assert status["portSummary"] == (
        "53/udp, 0.0.0.0:81->80/tcp, 0.0.0.0:8080->80/tcp, [::]:8080->80/tcp"
    )


@pytest.mark.parametrize(
    ("health", "shown"),
    [
        ({"Status": "healthy"}, "healthy"),
        ({"Status": "none"}, None),
        ({"Status": []}, None),
        (None, None),
    ],
)
def test_health_is_mirrored_if_there_are_checks(health: Any, shown: str | None) -> None:
    status = container_mirror({"Id": "x", "State": {"Health": health}}).status
    assert status.get("health") == shown


def test_exit_codes_of_32_bits_keep_their_bits() -> None:
    state = {"Status": "exited", "ExitCode": 0xC000013A, "FinishedAt": "2026-01-01T00:00:00Z"}
    status = container_mirror({"Id": "x", "State": state}).status
    assert status["exitCode"] & 0xFFFFFFFF == 0xC000013A


# -- credentials


@pytest.mark.parametrize(
    ("config", "auth", "problem"),
    [
        pytest.param(None, {}, "", id="no file"),
        pytest.param("{", {}, "cannot read", id="no JSON"),
        pytest.param("[]", {}, "is not a JSON object", id="no object"),
        pytest.param({"auths": {"r": {"auth": "bWU6cGFzczp3b3Jk"}}},
                     {"username": "me", "password": "pass:word", "serveraddress": "r"}, "",
                     id="auth"),
        pytest.param({"auths": {"r": {"auth": "%%%"}}}, {}, "cannot be decoded", id="bad auth"),
        pytest.param({"auths": {"r": {"identitytoken": "t"}}},
                     {"identitytoken": "t", "serveraddress": "r"}, "", id="token"),
        pytest.param({"auths": {"https://r": {"username": "u", "password": "p"}}},
                     {"username": "u", "password": "p", "serveraddress": "r"}, "", id="scheme"),
        pytest.param({"auths": {"other": {"auth": "bWU6eA=="}}}, {}, "", id="another registry"),
        pytest.param({"credsStore": "nosuch"}, {}, "docker-credential-nosuch is not on the PATH",
                     id="missing helper"),
        pytest.param({"credsStore": "../../bin/sh"}, {}, "is not on the PATH", id="hostile helper"),
        pytest.param({"auths": [], "credHelpers": 3}, {}, "", id="wrong types"),
    ],
)  # fmt: skip
async def test_credentials_from_the_configuration(
    config: Any, auth: dict[str, str], problem: str, tmp_path: Path
) -> None:
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text)
    found = await credentials.find(tmp_path, "r", environment={"PATH": "/usr/bin:/bin"})
    assert found.auth == auth
    assert problem in found.problem


@pytest.mark.parametrize(
    ("script", "auth", "problem"),
    [
        pytest.param('echo \'{"Username":"<token>","Secret":"t"}\'',
                     {"identitytoken": "t", "serveraddress": "r"}, "", id="token"),
        pytest.param("echo credentials not found in native keychain; exit 1", {}, "", id="none"),
        pytest.param("echo locked >&2; exit 2", {}, "failed: locked", id="fails"),
        pytest.param("echo hello", {}, "malformed response", id="nonsense"),
    ],
)  # fmt: skip
async def test_credentials_from_a_helper(
    script: str, auth: dict[str, str], problem: str, tmp_path: Path
) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(f"#!/bin/sh\n{script}\n")
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text('{"credsStore": "test"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = await credentials.find(tmp_path, "r", environment=environment)
    assert found.auth == auth
    assert problem in found.problem


async def test_hanging_helper_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text("#!/bin/sh\nexec sleep 600\n")
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text('{"credsStore": "test"}')
    monkeypatch.setattr(credentials, "HELPER_S", 0.1)
    found = await asyncio.wait_for(
        credentials.find(tmp_path, "r", environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}), 30
    )
    assert "did not end within" in found.problem
