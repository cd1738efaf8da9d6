# SPDX-License-Identifier: Apache-2.0
"""Detached signatures, created by openssl and gpg; those of minisign by their format."""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.gpg_keys import GpgKey
from tests.origin import CONTENT, DIGEST, Origin
from tests.programs import run_program

from rdd.fetch import signatures
from rdd.fetch.cache import Cache
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.fetching import fetch, published_digest
from rdd.fetch.publisher_signatures import PublisherSignature
from rdd.fetch.signatures import Signature


@pytest.fixture(autouse=True)
def _programs(real_part: Callable[[str], Path]) -> None:
    real_part("openssl")
    real_part("gpg")


Signer = Callable[[Path, Path], Signature]
"""Signs a file with a new key, in a directory for its files."""


def by_openssl(algorithm: list[str], command: list[str], *, is_base64: bool = False) -> Signer:
    def sign(path: Path, directory: Path) -> Signature:
        private, public, signature = (directory / name for name in ("key", "pub", "sig"))
        values = {"key": private, "pub": public, "file": path, "sig": signature}
        for words in (
            ["genpkey", *algorithm, "-out", "{key}"],
            ["pkey", "-in", "{key}", "-pubout", "-out", "{pub}"],
            command,
        ):
            run_program(["openssl", *(word.format(**values) for word in words)], check=True)
        content = signature.read_bytes()
        return Signature(
            base64.b64encode(content) + b"\n" if is_base64 else content, public.read_text()
        )

    return sign


def by_gpg(path: Path, directory: Path) -> Signature:
    key = GpgKey.create(directory / "gpg")
    return Signature(key.sign(path), key.public)


def by_minisign(*, is_prehashed: bool) -> Signer:
    def sign(path: Path, directory: Path) -> Signature:
        private, key_id = Ed25519PrivateKey.generate(), b"12345678"
        content = path.read_bytes()
        signed = hashlib.blake2b(content).digest() if is_prehashed else content
        signature, comment = private.sign(signed), b"timestamp:1"
        algorithm = b"ED" if is_prehashed else b"Ed"
        lines = [
            b"untrusted comment: x",
            base64.b64encode(algorithm + key_id + signature),
            b"trusted comment: " + comment,
            base64.b64encode(private.sign(signature + comment)),
        ]
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        key = base64.b64encode(b"Ed" + key_id + public).decode()
        return Signature(b"\n".join(lines) + b"\n", key)

    return sign


P256 = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
DGST = ["dgst", "-sha256", "-sign", "{key}", "-out", "{sig}", "{file}"]
RAW = ["pkeyutl", "-sign", "-rawin", "-inkey", "{key}", "-in", "{file}", "-out", "{sig}"]
SIGNERS = [
    pytest.param(by_openssl(P256, DGST), id="ecdsa"),
    pytest.param(by_openssl(P256, DGST, is_base64=True), id="cosign"),
    pytest.param(by_openssl(["-algorithm", "ed25519"], RAW), id="ed25519"),
    pytest.param(by_minisign(is_prehashed=True), id="minisign"),
    pytest.param(by_minisign(is_prehashed=False), id="minisign-legacy"),
    pytest.param(by_gpg, id="openpgp"),
]


@pytest.mark.parametrize("sign", SIGNERS)
def test_signature_matches_the_signed_file_and_key_only(sign: Signer, tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"content")
    found = sign(path, tmp_path)
    found.verify(path, "file")
    path.write_bytes(b"Content")
    with pytest.raises(FetchError, match='the signature of "file" is wrong') as caught:
        found.verify(path, "file")
    assert caught.value.failure == FetchFailure.SIGNATURE_MISMATCH
    path.write_bytes(b"content")
    other.mkdir()
    foreign = sign(path, other)
    with pytest.raises(FetchError, match=r"is wrong|made with another key"):
        Signature(found.content, foreign.key).verify(path, "file")


@pytest.mark.parametrize("sign", SIGNERS)
@pytest.mark.parametrize("damaged", [b"", b"x" * 100, b"\n\n\n\n"], ids=["empty", "text", "lines"])
def test_damaged_signature_is_a_failure(sign: Signer, damaged: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    key = sign(path, tmp_path).key
    with pytest.raises(FetchError) as caught:
        Signature(damaged, key).verify(path, "file")
    assert caught.value.failure == FetchFailure.SIGNATURE_MISMATCH


@pytest.mark.parametrize(
    "key",
    [
        "no key",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n",
        "RWQ=",
    ],
)
def test_damaged_key_is_a_failure(key: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with pytest.raises(FetchError, match="the signature cannot be verified: the public key"):
        Signature(b"x", key).verify(path, "file")


def test_unhashed_signature_of_a_large_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    found = by_minisign(is_prehashed=False)(path, tmp_path)
    monkeypatch.setattr(signatures, "MAX_UNHASHED_BYTES", 6)
    with pytest.raises(FetchError, match="over the whole file, which is larger than 6 bytes"):
        found.verify(path, "file")


async def test_file_with_a_wrong_signature_is_not_stored(
    origin: Origin, cache: Cache, tmp_path: Path
) -> None:
    path = tmp_path / "signed"
    path.write_bytes(b"another file")
    wrong = by_minisign(is_prehashed=True)(path, tmp_path)

    async def get(signature: Signature | None) -> None:
        await fetch(origin.url, DIGEST, cache=cache, report=lambda _: None, signature=signature)

    with pytest.raises(FetchError, match="signature"):
        await get(wrong)
    assert not list(cache.entries())
    assert not [one for one in cache.partial_files() if one.suffix != ".lock"]
    await get(None)
    with pytest.raises(FetchError, match="signature"):  # the file of the cache is verified, too
        await get(wrong)
    path.write_bytes(CONTENT)
    await get(by_minisign(is_prehashed=True)(path, tmp_path))


async def test_signature_of_the_checksums_is_verified(
    origin: Origin, cache: Cache, tmp_path: Path
) -> None:
    text = f"{'0' * 64}  k3s\n"
    path = tmp_path / "sums"
    path.write_text(text)
    found = by_minisign(is_prehashed=True)(path, tmp_path)
    origin.texts = {"/sums": text, "/sums.minisig": found.content.decode()}
    wanted = PublisherSignature(f"{origin.base}/sums.minisig", "checksums", found.key)
    signature = await wanted.read(cache)
    assert (await published_digest(f"{origin.base}/sums", "k3s", signature=signature)).hexadecimal
    origin.texts["/sums"] = f"{'1' * 64}  k3s\n"
    with pytest.raises(FetchError, match="is wrong"):
        await published_digest(f"{origin.base}/sums", "k3s", signature=signature)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    path = tmp_path / "signed file"
    path.write_bytes(b"content")
    return path


async def read(origin: Origin, cache: Cache, key: GpgKey, signed: Path) -> Signature:
    """Read a signature of the file with the key that its publisher offers."""
    origin.texts["/file.asc"] = key.sign(signed).decode()
    wanted = PublisherSignature(f"{origin.base}/file.asc", "file", key_url=f"{origin.base}/KEYS")
    return await wanted.read(cache)


async def test_first_key_of_a_publisher_that_verifies_is_kept(
    origin: Origin, cache: Cache, signed: Path, tmp_path: Path
) -> None:
    first, second = (GpgKey.create(tmp_path / name) for name in ("first", "second"))
    kept = cache.key_path(f"{origin.base}/KEYS")
    origin.texts["/KEYS"] = "<html>Log in to this network</html>"
    with pytest.raises(FetchError, match="the public key is none of PEM"):
        (await read(origin, cache, first, signed)).verify(signed, "file")
    assert not kept.exists()

    origin.texts["/KEYS"] = first.public
    (await read(origin, cache, first, signed)).verify(signed, "file")
    assert kept.read_text() == first.public

    # Another key and a file that it signed: that of somebody who took over the server.
    origin.texts["/KEYS"] = second.public
    with pytest.raises(FetchError, match=f'another key.*now, remove "{re.escape(str(kept))}"'):
        (await read(origin, cache, second, signed)).verify(signed, "file")
    del origin.texts["/KEYS"]
    (await read(origin, cache, first, signed)).verify(signed, "file")
    kept.unlink()
    origin.texts["/KEYS"] = second.public
    (await read(origin, cache, second, signed)).verify(signed, "file")


async def test_any_key_of_a_file_with_several_verifies(
    origin: Origin, cache: Cache, signed: Path, tmp_path: Path
) -> None:
    """Such as that of Helm, which begins with an explanation."""
    keys = [GpgKey.create(tmp_path / name) for name in ("first", "second")]
    text = "How to use this file: gpg --import\n\n" + "\n\n".join(key.public for key in keys)
    origin.texts["/KEYS"] = text
    for key in keys:
        (await read(origin, cache, key, signed)).verify(signed, "file")
    stranger = GpgKey.create(tmp_path / "stranger")
    with pytest.raises(FetchError, match="it was made with another key"):
        (await read(origin, cache, stranger, signed)).verify(signed, "file")


def test_expired_key_is_named(signed: Path, tmp_path: Path) -> None:
    key = GpgKey.create(tmp_path / "old", created="20200101T000000", expires="2020-02-01")
    with pytest.raises(FetchError, match="cannot be verified: the key has expired") as caught:
        Signature(key.sign(signed), key.public).verify(signed, "file")
    assert caught.value.failure == FetchFailure.SIGNATURE_MISMATCH
