# SPDX-License-Identifier: Apache-2.0
import datetime
import ssl
import stat
import sys
from pathlib import Path

import pytest
from cryptography import x509 as cx
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import run_program

from rdd.apiserver.auth import certificates, x509
from rdd.apiserver.auth.certificates import KeyPair

DAY = 86400.0


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.parse_certificate(next(x509.pem_blocks(pair.certificate)))


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Run a TLS handshake in memory; returns the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = server.wrap_bio(to_server, to_client, server_side=True)
    c = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (c, s):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    try:
        s.read(1)
    except ssl.SSLWantReadError:
        pass
    return s


def server_context(issued: certificates.Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate_path, issued.key_path)
    return context


def trusting(pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=pem.decode())
    return context


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1"])
def test_clients_trust_the_whole_certificate_file(tmp_path: Path, name: str) -> None:
    issued = certificates.ensure_serving(tmp_path)
    handshake(server_context(issued), trusting(issued.pair.certificate), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(issued), trusting(issued.pair.certificate), "example.com")


def test_keys_are_private_and_certificates_readable(tmp_path: Path) -> None:
    issued = certificates.ensure_serving(tmp_path / "tls")
    certificates.ensure_signing_key(tmp_path / "tls")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "tls").iterdir()}
    assert modes == {"apiserver.crt": 0o644, "apiserver.key": 0o600, "sa.key": 0o600}
    assert issued.key_path.name == "apiserver.key"


def test_valid_files_are_reused(tmp_path: Path) -> None:
    first = certificates.ensure_serving(tmp_path)
    key = certificates.ensure_signing_key(tmp_path)
    assert certificates.ensure_serving(tmp_path) == first
    assert certificates.ensure_signing_key(tmp_path) == key


@pytest.mark.parametrize(
    ("days", "is_renewed"),
    [pytest.param(379, False, id="31-days-left"), pytest.param(381, True, id="29-days-left")],
)
def test_certificates_are_renewed_30_days_before_expiry(
    tmp_path: Path, days: int, is_renewed: bool
) -> None:
    start = 1_800_000_000.0
    first = certificates.ensure_serving(tmp_path, now=lambda: start)
    second = certificates.ensure_serving(tmp_path, now=lambda: start + days * DAY)
    assert (second != first) is is_renewed


@pytest.mark.parametrize("days", [-400, 400])
def test_new_certificate_survives_a_jump_of_the_clock(tmp_path: Path, days: int) -> None:
    issued = certificates.ensure_serving(tmp_path)
    then = datetime.datetime.now(datetime.UTC).timestamp() + days * DAY
    for der in x509.pem_blocks(issued.pair.certificate):
        found = x509.parse_certificate(der)
        assert found.not_before < then < found.not_after
    leaf = parsed(issued.pair)
    assert leaf.not_after - leaf.not_before < 825 * DAY  # the limit of Apple's clients


@pytest.mark.parametrize(
    "damage",
    ["no-key", "no-certificate", "garbage", "damaged", "truncated", "other-key", "rsa", "future"],
)
def test_invalid_files_are_reissued(tmp_path: Path, damage: str) -> None:
    first = certificates.ensure_serving(tmp_path)
    certificate, key = first.certificate_path, first.key_path
    if damage == "no-key":
        key.unlink()
    elif damage == "no-certificate":
        certificate.unlink()
    elif damage == "garbage":
        certificate.write_bytes(b"hello")
    elif damage == "damaged":
        certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n")
    elif damage == "truncated":
        head = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        certificate.write_bytes(head)
    elif damage == "other-key":
        key.write_bytes(certificates.create_authority("x").key)
    elif damage == "rsa":
        key.write_bytes(b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")
    else:
        later = datetime.datetime.now(datetime.UTC).timestamp() + 500 * DAY
        certificate.unlink()
        first = certificates.ensure_serving(tmp_path, now=lambda: later)
    second = certificates.ensure_serving(tmp_path)
    assert second.pair != first.pair
    handshake(server_context(second), trusting(second.pair.certificate), "localhost")


def test_more_names_need_a_new_certificate(tmp_path: Path) -> None:
    first = certificates.ensure_serving(tmp_path, names=["localhost", "10.0.0.1"])
    assert certificates.ensure_serving(tmp_path, names=["10.0.0.1"]) == first
    second = certificates.ensure_serving(tmp_path, names=["localhost", "box.example"])
    assert parsed(second.pair).names == {"localhost", "box.example"}


def test_certificate_of_a_kept_authority_contains_only_itself(tmp_path: Path) -> None:
    authority = certificates.ensure_authority(
        tmp_path, "webhook-ca", common_name="webhook-ca", organization="Ours"
    )
    issued = certificates.ensure_serving(tmp_path, "webhook-a", authority=authority.pair)
    assert len(list(x509.pem_blocks(issued.pair.certificate))) == 1
    assert parsed(authority.pair).subject == (
        (x509.ORGANIZATION, "Ours"),
        (x509.COMMON_NAME, "webhook-ca"),
    )
    handshake(server_context(issued), trusting(authority.pair.certificate), "127.0.0.1")


def test_client_certificate_proves_user_groups_and_uid(tmp_path: Path) -> None:
    authority = certificates.ensure_authority(tmp_path, "client-ca", common_name="clients")
    pair = certificates.issue_client(authority.pair, "ann", groups=["devs", "ops"], uid="u-1")
    (tmp_path / "ann.crt").write_bytes(pair.certificate)
    (tmp_path / "ann.key").write_bytes(pair.key)
    serving = certificates.ensure_serving(tmp_path)
    server = server_context(serving)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.certificate_path)
    client = trusting(serving.pair.certificate)
    client.load_cert_chain(tmp_path / "ann.crt", tmp_path / "ann.key")
    der = handshake(server, client, "localhost").getpeercert(binary_form=True)
    assert der is not None
    certificate = x509.parse_certificate(der)
    assert certificate.subject_values(x509.COMMON_NAME) == ["ann"]
    assert certificate.subject_values(x509.ORGANIZATION) == ["devs", "ops"]
    assert certificate.subject_values(x509.USER_UID) == ["u-1"]


def test_signing_key_that_is_not_p256_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.write_bytes(b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")
    pem = certificates.ensure_signing_key(tmp_path)
    assert path.read_bytes() == pem
    assert serialization.load_pem_private_key(pem, None) is not None


def test_failed_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        certificates.ensure_signing_key(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_start_with_valid_files_does_not_import_cryptography(tmp_path: Path) -> None:
    certificates.ensure_serving(tmp_path)
    certificates.ensure_signing_key(tmp_path)
    program = (
        "import sys, pathlib\n"
        "from rdd.apiserver.auth import authentication, bootstrap_policy, certificates, reviews\n"
        "from rdd.apiserver.auth.tokens import TokenIssuer\n"
        f"directory = pathlib.Path({str(tmp_path)!r})\n"
        "certificates.ensure_serving(directory)\n"
        "TokenIssuer(certificates.ensure_signing_key(directory))\n"
        "sys.exit('cryptography' in sys.modules)\n"
    )
    assert run_program([sys.executable, "-c", program]).returncode == 0


def test_parser_agrees_with_cryptography() -> None:
    authority = certificates.create_authority("ä" * 30, organization="Ö", now=lambda: 2_600_000_000)
    pair = certificates.issue_serving(
        authority, "server", names=["a.example", "::1", "10.0.0.1"], days=20_000
    )
    for pem in (authority.certificate, pair.certificate):
        expected = cx.load_pem_x509_certificate(pem)
        own = x509.parse_certificate(next(x509.pem_blocks(pem)))
        assert own.not_before == expected.not_valid_before_utc.timestamp()
        assert own.not_after == expected.not_valid_after_utc.timestamp()
        assert own.subject == tuple((a.oid.dotted_string, a.value) for a in expected.subject)
        assert own.public_key == expected.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
    assert parsed(pair).names == {"a.example", "::1", "10.0.0.1"}


_DER = next(x509.pem_blocks(certificates.create_authority("x").certificate))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(_DER) - 1), st.integers(0, 255), st.booleans())
def test_damaged_certificates_are_parsed_or_rejected_without_a_crash(
    at: int, byte: int, is_cut: bool
) -> None:
    damaged = _DER[:at] if is_cut else _DER[:at] + bytes([byte]) + _DER[at + 1 :]
    try:
        x509.parse_certificate(damaged)
    except ValueError:
        pass
