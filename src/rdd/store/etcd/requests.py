# SPDX-License-Identifier: Apache-2.0
"""The messages of etcd's API version 3, as far as a store needs them.

The field numbers are those of etcd's published rpc.proto; they never change. Requests are
encoded by small functions, responses are read with `rdd.grpc.messages.Message`.
"""

from dataclasses import dataclass

from rdd.base import protowire
from rdd.base.protowire import BYTES, VARINT, read_span, read_tag, read_varint, signed, skip
from rdd.grpc.messages import Message, field

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
COMPACT = "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_TTL = "/etcdserverpb.Lease/LeaseTimeToLive"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
STATUS = "/etcdserverpb.Maintenance/Status"

_MOD = 2  # Compare.target: the revision of the last change
_FRAGMENT, _EVENTS = 7, 11  # fields of WatchResponse
_EVENT_DELETE = 1
_KEY, _CREATED, _MODIFIED, _VALUE, _LEASE = 1 << 3 | BYTES, 2 << 3, 3 << 3, 5 << 3 | BYTES, 6 << 3
"""Tags of KeyValue."""


@dataclass(frozen=True, slots=True)
class EtcdValue:
    """A key in etcd."""

    key: bytes
    value: bytes
    created: int
    modified: int
    lease: int


@dataclass(frozen=True, slots=True)
class EtcdEvent:
    """A change of a key; `value` has no value for a deletion."""

    is_delete: bool
    value: EtcdValue
    previous: EtcdValue | None


@dataclass(frozen=True, slots=True)
class EtcdRange:
    """A RangeResponse."""

    values: list[EtcdValue]
    revision: int
    more: bool


_NO_VALUE = EtcdValue(b"", b"", 0, 0, 0)


def range_request(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    revision: int = 0,
    keys_only: bool = False,
) -> bytes:
    """Encode a RangeRequest; it is linearizable."""
    return (
        protowire.encode_bytes(1, key)
        + field(2, end)
        + field(3, limit)
        + field(4, revision)
        + field(8, keys_only)
    )


def put(key: bytes, value: bytes, lease: int = 0) -> bytes:
    """Encode a RequestOp that stores a value."""
    return field(2, protowire.encode_bytes(1, key) + field(2, value) + field(3, lease))


def delete(key: bytes) -> bytes:
    """Encode a RequestOp that deletes a key."""
    return field(3, protowire.encode_bytes(1, key))


def read(key: bytes) -> bytes:
    """Encode a RequestOp that reads the revisions of a key."""
    return field(1, range_request(key, keys_only=True))


def is_at(key: bytes, revision: int) -> bytes:
    """Encode a Compare: the key was changed last at this revision; 0: it does not exist."""
    return field(2, _MOD) + protowire.encode_bytes(3, key) + field(6, revision)


def exists(key: bytes) -> bytes:
    """Encode a Compare: the key exists."""
    return field(1, 1) + field(2, _MOD) + protowire.encode_bytes(3, key)


def txn(compares: list[bytes], success: list[bytes], failure: list[bytes]) -> bytes:
    """Encode a TxnRequest."""
    return b"".join(
        protowire.encode_bytes(number, part)
        for number, parts in ((1, compares), (2, success), (3, failure))
        for part in parts
    )


def watch(key: bytes, end: bytes, start: int, *, has_previous: bool) -> bytes:
    """Encode a WatchRequest for changes of a range from a revision on.

    Responses are fragments of at most about the size of a request (`WatchEvents`). Previous
    values cost etcd a read for every change.
    """
    return field(
        1,
        protowire.encode_bytes(1, key)
        + field(2, end)
        + field(3, start)
        + field(6, has_previous)
        + field(8, True),
    )


def value_of(message: Message) -> EtcdValue:
    """Read a KeyValue."""
    return EtcdValue(
        message.bytes(1),
        message.bytes(5),
        message.integer(2),
        message.integer(3),
        message.signed(6),
    )


def succeeded_at(data: bytes) -> int:
    """Return the revision of a TxnResponse, 0 if a comparison failed.

    Raises MalformedProtobuf.
    """
    at, end = 0, len(data)
    revision = succeeded = 0
    while at < end:
        number, wire, at = read_tag(data, at, end, "TxnResponse")
        if number == 1 and wire == BYTES:
            start, at = read_span(data, at, end)
            revision = _revision(data, start, at)
        elif number == 2 and wire == VARINT:
            succeeded, at = read_varint(data, at, end)
        elif number == 3:
            break  # the responses of the operations follow
        else:
            at = skip(data, at, end, wire)
    return revision if succeeded else 0


def _revision(data: bytes, at: int, end: int) -> int:
    while at < end:
        number, wire, at = read_tag(data, at, end, "ResponseHeader")
        if number == 3 and wire == VARINT:
            return read_varint(data, at, end)[0]
        at = skip(data, at, end, wire)
    return 0


def range_of(data: bytes) -> EtcdRange:
    """Return a RangeResponse, read in place. Raises MalformedProtobuf."""
    values: list[EtcdValue] = []
    revision = more = 0
    at, end = 0, len(data)
    while at < end:
        number, wire, at = read_tag(data, at, end, "RangeResponse")
        if number == 2 and wire == BYTES:
            start, at = read_span(data, at, end)
            values.append(_key_value(data, start, at))
        elif number == 1 and wire == BYTES:
            start, at = read_span(data, at, end)
            revision = _revision(data, start, at)
        elif number == 3 and wire == VARINT:
            more, at = read_varint(data, at, end)
        else:
            at = skip(data, at, end, wire)
    return EtcdRange(values, revision, bool(more))


def events_of(data: bytes) -> tuple[list[EtcdEvent], bool]:
    """Return the events of a WatchResponse, and whether another fragment follows.

    Every write of every server passes here, so the fields are read in place. Raises
    MalformedProtobuf.
    """
    found: list[EtcdEvent] = []
    is_fragment = 0
    at, end = 0, len(data)
    while at < end:
        number, wire, at = read_tag(data, at, end, "WatchResponse")
        if number == _EVENTS and wire == BYTES:
            start, at = read_span(data, at, end)
            found.append(_event(data, start, at))
        elif number == _FRAGMENT and wire == VARINT:
            is_fragment, at = read_varint(data, at, end)
        else:
            at = skip(data, at, end, wire)
    return found, bool(is_fragment)


def _event(data: bytes, at: int, end: int) -> EtcdEvent:
    kind = 0
    value = _NO_VALUE
    previous: EtcdValue | None = None
    while at < end:
        number, wire, at = read_tag(data, at, end, "Event")
        if wire == BYTES and number in (2, 3):
            start, at = read_span(data, at, end)
            if number == 2:
                value = _key_value(data, start, at)
            else:
                previous = _key_value(data, start, at)
        elif number == 1 and wire == VARINT:
            kind, at = read_varint(data, at, end)
        else:
            at = skip(data, at, end, wire)
    return EtcdEvent(kind == _EVENT_DELETE, value, previous)


def _key_value(data: bytes, at: int, end: int) -> EtcdValue:
    key = value = b""
    created = modified = lease = 0
    while at < end:
        tag = data[at]  # all field numbers are below 16: one byte
        if tag & 7 == BYTES:
            start, at = read_span(data, at + 1, end)
            if tag == _KEY:
                key = data[start:at]
            elif tag == _VALUE:
                value = data[start:at]
        elif tag & 7 == VARINT:
            integer, at = read_varint(data, at + 1, end)
            if tag == _CREATED:
                created = integer
            elif tag == _MODIFIED:
                modified = integer
            elif tag == _LEASE:
                lease = signed(integer, 64)
        else:
            at = skip(data, at + 1, end, tag & 7)
    return EtcdValue(key, value, created, modified, lease)
