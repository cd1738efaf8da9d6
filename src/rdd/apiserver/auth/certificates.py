# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of the server: created when missing, renewed before they expire.

All keys are EC P-256. `apiserver.crt` holds the serving certificate followed by the authority that
signed it, so that a kubeconfig can use the whole file as its trust anchor. The key of that
authority is discarded, so nothing else can ever be signed by it. `cryptography` is imported only
to issue a certificate: a start with valid files parses them with `x509` only.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.apiserver.auth import x509
from rdd.host.files import open_new, replace

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import ExtensionType, Name

SERVING = "apiserver"
"""Stem of the files of the serving pair (.crt and .key)."""
SIGNING_KEY = "sa.key"
"""The key that signs service account tokens."""

SERVING_NAME = "rdd-apiserver"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
RENEW_BEFORE_S = 30 * 86400
# Clocks jump: a battery runs empty, a guest resumes with an old time. Certificates are valid for
# more than a year around their issue, so that a running daemon and its clients still accept each
# other. Apple rejects certificates with a span of more than 825 days.
_ISSUED_DAYS = 410
_BACKDATE_S = 410 * 86400
_AUTHORITY_DAYS = 3650

# DER of the object identifier prime256v1, which every PKCS#8 P-256 key contains.
_P256 = bytes.fromhex("06082a8648ce3d030107")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (or a chain, leaf first) with its private key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Issued:
    """A key pair on disk."""

    certificate_path: Path
    key_path: Path
    pair: KeyPair


def ensure_serving(
    directory: Path,
    stem: str = SERVING,
    *,
    names: Sequence[str] = LOCAL_NAMES,
    common_name: str = SERVING_NAME,
    authority: KeyPair | None = None,
    prepared: KeyPair | None = None,
    now: Callable[[], float] = time.time,
) -> Issued:
    """Return the serving pair `<stem>.crt`/`<stem>.key`; issue a new one if it is not valid.

    A pair is valid if it is readable, key and certificate match, at least 30 days are left and
    all `names` (DNS names and IP addresses) are covered. Without an `authority`, one is created
    for this certificate alone and appended to the file. `prepared` is a pair to use if one is
    needed (`rdd.daemon.key_issuer`).
    """

    def issue() -> KeyPair:
        if prepared is not None and _is_valid(prepared, names, now()):
            return prepared
        if authority is not None:
            return issue_serving(authority, common_name, names=names, now=now)
        return create_serving(common_name, names=names, now=now)

    return _ensure(directory, stem, names, issue, now)


def create_serving(
    common_name: str = SERVING_NAME,
    *,
    names: Sequence[str] = LOCAL_NAMES,
    now: Callable[[], float] = time.time,
) -> KeyPair:
    """Issue a serving pair by an authority of its own, whose certificate follows the first."""
    authority = create_authority(f"{common_name}-ca", now=now)
    pair = issue_serving(authority, common_name, names=names, now=now)
    return KeyPair(pair.certificate + authority.certificate, pair.key)


def names_of(issued: Issued) -> frozenset[str]:
    """Return the DNS names and IP addresses of a serving certificate."""
    der = next(iter(x509.pem_blocks(issued.pair.certificate)))
    return frozenset(x509.parse_certificate(der).names)


def ensure_authority(
    directory: Path,
    stem: str,
    *,
    common_name: str,
    organization: str = "",
    now: Callable[[], float] = time.time,
) -> Issued:
    """Return the authority in `<stem>.crt`/`<stem>.key`, e.g. for client certificates."""
    return _ensure(
        directory,
        stem,
        (),
        lambda: create_authority(common_name, organization=organization, now=now),
        now,
    )


def ensure_signing_key(directory: Path, *, prepared: bytes = b"") -> bytes:
    """Return the PEM of the token signing key `sa.key`; replace a key that is not EC P-256."""
    path = directory / SIGNING_KEY
    try:
        pem = path.read_bytes()
        if any(_P256 in der for der in x509.pem_blocks(pem)):
            return pem
    except (FileNotFoundError, ValueError):
        pass
    pem = prepared or create_signing_key()
    _write(path, pem, 0o600)
    return pem


def create_signing_key() -> bytes:
    """Create a key for service account tokens, as PEM."""
    return _key_pem(_generate())


def _ensure(
    directory: Path,
    stem: str,
    names: Sequence[str],
    issue: Callable[[], KeyPair],
    now: Callable[[], float],
) -> Issued:
    certificate_path, key_path = directory / f"{stem}.crt", directory / f"{stem}.key"
    try:
        pair = KeyPair(certificate_path.read_bytes(), key_path.read_bytes())
        is_valid = _is_valid(pair, names, now())
    except FileNotFoundError:
        is_valid = False
    if not is_valid:
        pair = issue()
        # A crash between the two writes leaves a mismatched pair, which the next start replaces.
        _write(key_path, pair.key, 0o600)
        _write(certificate_path, pair.certificate, 0o644)
    return Issued(certificate_path, key_path, pair)


def _is_valid(pair: KeyPair, names: Sequence[str], now: float) -> bool:
    try:
        chain = [x509.parse_certificate(der) for der in x509.pem_blocks(pair.certificate)]
        keys = list(x509.pem_blocks(pair.key))
    except ValueError:
        return False
    if not chain or not any(_P256 in key and chain[0].public_key in key for key in keys):
        return False
    return set(names) <= chain[0].names and all(
        c.not_before <= now < c.not_after - RENEW_BEFORE_S for c in chain
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = open_new(temporary, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_authority(
    common_name: str, *, organization: str = "", now: Callable[[], float] = time.time
) -> KeyPair:
    """Create a self-signed certificate authority that is valid for ten years."""
    from cryptography import x509 as cx

    key = _generate()
    subject = _name(common_name, [organization] if organization else [])
    extensions: list[tuple[ExtensionType, bool]] = [
        (cx.BasicConstraints(ca=True, path_length=None), True),
        (cx.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ]
    return _sign(key, subject, extensions, issuer=(subject, key), days=_AUTHORITY_DAYS, now=now())


def issue_serving(
    authority: KeyPair,
    common_name: str,
    *,
    names: Sequence[str],
    days: float = _ISSUED_DAYS,
    now: Callable[[], float] = time.time,
) -> KeyPair:
    """Issue a server certificate for DNS names and IP addresses."""
    import ipaddress

    from cryptography import x509 as cx

    general: list[cx.GeneralName] = []
    for name in names:
        try:
            general.append(cx.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            general.append(cx.DNSName(name))
    extensions: list[tuple[ExtensionType, bool]] = [
        (cx.BasicConstraints(ca=False, path_length=None), True),
        (cx.ExtendedKeyUsage([cx.oid.ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (cx.SubjectAlternativeName(general), False),
    ]
    subject = _name(common_name, [])
    issuer = _issuer(authority)
    return _sign(_generate(), subject, extensions, issuer=issuer, days=days, now=now())


def issue_client(
    authority: KeyPair,
    user: str,
    *,
    groups: Sequence[str] = (),
    uid: str = "",
    days: float = _ISSUED_DAYS,
    now: Callable[[], float] = time.time,
) -> KeyPair:
    """Issue a client certificate for a user (common name) and groups (organisations)."""
    from cryptography import x509 as cx

    extensions: list[tuple[ExtensionType, bool]] = [
        (cx.BasicConstraints(ca=False, path_length=None), True),
        (cx.ExtendedKeyUsage([cx.oid.ExtendedKeyUsageOID.CLIENT_AUTH]), False),
    ]
    subject = _name(user, groups, uid)
    issuer = _issuer(authority)
    return _sign(_generate(), subject, extensions, issuer=issuer, days=days, now=now())


def _generate() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _name(common_name: str, organizations: Sequence[str], uid: str = "") -> "Name":
    from cryptography import x509 as cx

    attributes = [(x509.ORGANIZATION, o) for o in organizations]
    attributes.append((x509.COMMON_NAME, common_name))
    if uid:
        attributes.append((x509.USER_UID, uid))
    return cx.Name([cx.NameAttribute(cx.ObjectIdentifier(i), text) for i, text in attributes])


def _issuer(authority: KeyPair) -> tuple["Name", "EllipticCurvePrivateKey"]:
    from cryptography import x509 as cx
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the certificate authority is not an EC key")
    return cx.load_pem_x509_certificate(authority.certificate).subject, key


def _sign(
    key: "EllipticCurvePrivateKey",
    subject: "Name",
    extensions: "list[tuple[ExtensionType, bool]]",
    *,
    issuer: tuple["Name", "EllipticCurvePrivateKey"],
    days: float,
    now: float,
) -> KeyPair:
    """Sign a certificate for the key; each extension has a flag whether it is critical."""
    from cryptography import x509 as cx
    from cryptography.hazmat.primitives import hashes, serialization

    is_authority = issuer[1] is key
    usage = cx.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    identifier = cx.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key())
    builder = (
        cx.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0])
        .public_key(key.public_key())
        .serial_number(cx.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - _BACKDATE_S, UTC))
        .not_valid_after(datetime.fromtimestamp(now, UTC) + timedelta(days=days))
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    certificate = builder.sign(issuer[1], hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))
