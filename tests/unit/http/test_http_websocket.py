# SPDX-License-Identifier: Apache-2.0
"""WebSocket frames: masks, fragments, control frames, violations."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdd.http.websocket import Frames, Message, Opcode, Violation, encode, unmask

MASK = b"\x01\x02\x03\x04"


def frame(
    opcode: int, data: bytes = b"", *, final: bool = True, masked: bool = True, bits: int = 0
) -> bytes:
    plain = bytearray(encode(opcode, data))
    plain[0] = (0x80 if final else 0) | bits | opcode
    if not masked:
        return bytes(plain)
    plain[1] |= 0x80
    head = len(plain) - len(data)
    return bytes(plain[:head]) + MASK + unmask(data, MASK)


def messages(data: bytes, *, limit: int = 1000, step: int = 0) -> list[Message]:
    frames = Frames(limit)
    found = []
    for start in range(0, len(data), step or len(data)):
        frames.feed(data[start : start + (step or len(data))])
        while (message := frames.next()) is not None:
            found.append(message)
    return found


@given(data=st.binary(max_size=300), mask=st.binary(min_size=4, max_size=4))
def test_mask_is_the_one_of_the_rfc(data: bytes, mask: bytes) -> None:
    assert unmask(data, mask) == bytes(b ^ mask[i % 4] for i, b in enumerate(data))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
@pytest.mark.parametrize("step", [0, 1000])
def test_sizes_of_all_forms_are_read(size: int, step: int) -> None:
    data = bytes(i % 251 for i in range(size))
    (found,) = messages(frame(Opcode.BINARY, data), limit=100_000, step=step)
    assert (found.type, found.data) == (Opcode.BINARY, data)


def test_fragments_are_joined_and_control_frames_come_between() -> None:
    data = (
        frame(Opcode.TEXT, b"\xc3", final=False)
        + frame(Opcode.PING, b"?")
        + frame(Opcode.CONTINUATION, b"\xbc", final=False)
        + frame(Opcode.CONTINUATION, b"!")
    )
    for step in range(1, len(data)):
        ping, text = messages(data, step=step)
        assert (ping.type, ping.data, text.text) == (Opcode.PING, b"?", "ü!")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(frame(Opcode.TEXT, b"a", masked=False), 1002, id="no mask"),
        pytest.param(frame(Opcode.TEXT, b"a", bits=0x40), 1002, id="reserved bit"),
        pytest.param(frame(3, b"a"), 1002, id="unknown type"),
        pytest.param(frame(Opcode.CONTINUATION, b"a"), 1002, id="continuation of nothing"),
        pytest.param(
            frame(Opcode.TEXT, b"a", final=False) + frame(Opcode.TEXT, b"b"), 1002, id="nested"
        ),
        pytest.param(frame(Opcode.PING, b"a", final=False), 1002, id="fragmented ping"),
        pytest.param(frame(Opcode.PING, b"a" * 126), 1002, id="long ping"),
        pytest.param(frame(Opcode.TEXT, b"\xff"), 1007, id="no UTF-8"),
        pytest.param(frame(Opcode.BINARY, b"a" * 1001), 1009, id="too large"),
        pytest.param(
            frame(Opcode.BINARY, b"a" * 600, final=False)
            + frame(Opcode.CONTINUATION, b"a" * 600)[:20],
            1009,
            id="fragments too large",
        ),
        pytest.param(
            b"\x82\xff" + struct.pack("!Q", 1 << 62) + MASK, 1009, id="announced too large"
        ),
        pytest.param(frame(Opcode.CLOSE, b"\x03"), 1002, id="half a code"),
        pytest.param(frame(Opcode.CLOSE, struct.pack("!H", 1005)), 1002, id="reserved code"),
        pytest.param(frame(Opcode.CLOSE, struct.pack("!H", 99)), 1002, id="no code"),
    ],
)
def test_violations_have_the_close_code_of_the_rfc(data: bytes, code: int) -> None:
    with pytest.raises(Violation) as found:
        messages(data)
    assert found.value.code == code


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_messages_or_a_violation(data: bytes, step: int) -> None:
    try:
        messages(data, step=step)
    except Violation as error:
        assert error.code in (1002, 1007, 1009)
