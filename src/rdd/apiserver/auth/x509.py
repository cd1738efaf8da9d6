# SPDX-License-Identifier: Apache-2.0
"""A certificate parser for subject, validity and names that needs no crypto library.

Importing `cryptography` costs tens of milliseconds, too much for checking the serving certificate
at every start and for the identity of every new client connection. Signatures are not verified
here: the TLS layer verifies peers, and the files of the server are trusted.
"""

import binascii
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

COMMON_NAME = "2.5.4.3"
ORGANIZATION = "2.5.4.10"
USER_UID = "1.3.6.1.4.1.57683.2"
"""Kubernetes' object identifier of a user's UID in a subject."""

_SUBJECT_ALT_NAME = "2.5.29.17"
_SEQUENCE, _CONTEXT_0, _CONTEXT_3 = 0x30, 0xA0, 0xA3
_UTC_TIME = 0x17
_BMP_STRING = 0x1E


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of an X.509 certificate that identity and renewal need."""

    subject: tuple[tuple[str, str], ...]
    """Attributes as (object identifier, text), in order."""
    not_before: float
    not_after: float
    names: frozenset[str]
    """DNS names and IP addresses of the subject alternative name."""
    public_key: bytes
    """The bits of the public key; for EC the uncompressed point."""

    def subject_values(self, identifier: str) -> list[str]:
        """Return all values of a subject attribute."""
        return [text for oid, text in self.subject if oid == identifier]


def pem_blocks(pem: bytes) -> Iterator[bytes]:
    """Yield the DER of each block of a PEM file; raise ValueError for a damaged block."""
    body: list[bytes] | None = None
    for line in pem.splitlines():
        if line.startswith(b"-----BEGIN"):
            body = []
        elif line.startswith(b"-----END"):
            if body is not None:
                yield binascii.a2b_base64(b"".join(body), strict_mode=True)
            body = None
        elif body is not None:
            body.append(line.strip())


def parse_certificate(der: bytes) -> Certificate:
    """Parse a DER certificate; raise ValueError if it is not one."""
    try:
        return _parse(der)
    except (IndexError, UnicodeDecodeError) as e:
        raise ValueError("not an X.509 certificate") from e


def _parse(der: bytes) -> Certificate:
    (_, certificate), *_ = _items(der)
    (_, body), *_ = _items(certificate)
    fields = list(_items(body))
    if fields[0][0] == _CONTEXT_0:  # the version, absent in version 1
        del fields[0]
    _serial, _algorithm, _issuer, validity, subject, key, *rest = fields
    times = [_time(tag, value) for tag, value in _items(validity[1])]
    names: set[str] = set()
    for tag, value in rest:
        if tag == _CONTEXT_3:
            names |= _alternative_names(value)
    _, (_, bits) = _items(key[1])
    return Certificate(
        subject=tuple(_subject(subject[1])),
        not_before=times[0],
        not_after=times[1],
        names=frozenset(names),
        public_key=bits[1:],  # the first byte counts unused bits
    )


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tags and contents of a constructed value."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            raise ValueError("not an X.509 certificate")
        yield tag, data[at : at + length]
        at += length


def _subject(data: bytes) -> Iterator[tuple[str, str]]:
    for _, relative in _items(data):
        for _, attribute in _items(relative):
            (_, oid), (tag, value) = _items(attribute)
            yield _oid(oid), value.decode("utf-16-be" if tag == _BMP_STRING else "utf-8")


def _oid(data: bytes) -> str:
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _time(tag: int, value: bytes) -> float:
    text = value.decode("ascii").rstrip("Z")
    if tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()


def _alternative_names(extensions: bytes) -> set[str]:
    names: set[str] = set()
    (_, sequence), *_ = _items(extensions)
    for _, extension in _items(sequence):
        parts = list(_items(extension))
        if _oid(parts[0][1]) != _SUBJECT_ALT_NAME:
            continue
        (_, general_names), *_ = _items(parts[-1][1])
        for tag, value in _items(general_names):
            if tag == 0x82:
                names.add(value.decode("ascii"))
            elif tag == 0x87:
                names.add(str(ipaddress.ip_address(value)))
    return names
