# SPDX-License-Identifier: Apache-2.0
"""Checks the key pair of a TLS secret and returns the error of Go's tls.X509KeyPair.

Kubernetes stores any bytes as a TLS secret but warns about pairs that no server could use; the
warning is Go's error text.
"""

import base64
import binascii
import bisect
import re
from collections.abc import Iterator

_LABEL = rb"((?:(?!-----)[^\r\n])*+)-----"
_BEGIN = re.compile(rb"-----BEGIN " + _LABEL + rb"[ \t]*+\r?\n")
_END = re.compile(rb"-----END " + _LABEL)
_HEADER = re.compile(rb"^[^\r\n:]+:.*$", re.MULTILINE)


def problem(certificate: bytes, key: bytes) -> str:
    """Return why a certificate and a key cannot be used together; empty if they can."""
    chain = _blocks(certificate)
    if not any(kind == "CERTIFICATE" for kind, _ in chain):
        return _no_certificate([kind for kind, _ in chain])
    keys = [(k, b) for k, b in _blocks(key) if k == "PRIVATE KEY" or k.endswith(" PRIVATE KEY")]
    if not keys:
        return _no_key([kind for kind, _ in _blocks(key)])
    leaf = next(body for kind, body in chain if kind == "CERTIFICATE")
    return _mismatch(leaf, keys[0][1])


def _blocks(pem: bytes) -> list[tuple[str, bytes]]:
    found = []
    for label, content in _sections(pem):
        body = _HEADER.sub(b"", content)
        try:
            decoded = base64.b64decode(b"".join(body.split()), validate=True)
        except (binascii.Error, ValueError):
            continue
        found.append((label.decode("latin-1"), decoded))
    return found


def _sections(pem: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield label and content of each section; the text is read twice, whatever it has."""
    ends: dict[bytes, list[int]] = {}
    for match in _END.finditer(pem):
        ends.setdefault(match[1], []).append(match.start())
    position = 0
    for match in _BEGIN.finditer(pem):
        known = ends.get(match[1], ())
        index = bisect.bisect_left(known, match.end())
        if match.start() >= position and index < len(known):
            position = known[index]
            yield match[1], pem[match.end() : position]


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        f"blocks of the following types: [{' '.join(skipped)}]"
    )


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if len(skipped) == 1 and skipped[0] == "CERTIFICATE":
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    # Imported late: the library is large and TLS secrets are rare.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # the parser has no common error class; every failure has the same meaning
        return "x509: malformed certificate"
    try:
        private = serialization.load_der_private_key(key, None)
    except Exception:
        return "tls: failed to parse private key"
    own = private.public_key()
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    encoding = serialization.Encoding.DER
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    if own.public_bytes(encoding, form) != public.public_bytes(encoding, form):
        return "tls: private key does not match public key"
    return ""
