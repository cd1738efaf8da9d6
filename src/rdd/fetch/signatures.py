# SPDX-License-Identifier: Apache-2.0
"""Detached signatures of publishers, verified with a public key that the user or a catalogue has.

The form of the key selects the form of the signature:

    -----BEGIN PUBLIC KEY-----            ECDSA on P-256 over SHA-256, base64 or DER, as cosign
                                          and `openssl dgst -sign` create it; or raw Ed25519
    RW… (minisign)                        the file of minisign, prehashed or legacy
    -----BEGIN PGP PUBLIC KEY BLOCK-----  OpenPGP; verified by the program gpg

Ed25519 without a hash signs the whole file, so it must fit into memory: there is a limit. The
other forms read the file in pieces.
"""

import base64
import binascii
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rdd.fetch.failures import FetchError, FetchFailure
from rdd.host.commands import run_blocking
from rdd.host.errors import HostError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SIGNATURE_BYTES: Final = 64 << 10
"""The largest signature that is read."""
MAX_UNHASHED_BYTES: Final = 64 << 20
"""The largest file whose signature is over all of it instead of its hash."""

_PEM, _PGP = "-----BEGIN PUBLIC KEY-----", "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_GPG_S = 60.0
_PROBLEMS: Final = {
    "EXPKEYSIG": "the key has expired",
    "EXPSIG": "the signature has expired",
    "REVKEYSIG": "the key was revoked",
    "NO_PUBKEY": "it was made with another key",
}
"""What gpg reports (doc/DETAILS of GnuPG) about a signature that need not be forged."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A detached signature and the key that verifies it."""

    content: bytes
    key: str

    def verify(self, path: Path, name: str) -> None:
        """Check the signature of a file; `name` is for messages. Blocking. Raises FetchError."""
        try:
            if _PGP in self.key:  # a publisher's file of keys may begin with an explanation
                is_valid = self._verify_openpgp(path)
            elif self.key.startswith(_PEM):
                is_valid = self._verify_pem(path)
            else:
                is_valid = _Minisign.of(self.content, self.key).verify(path)
        except OSError as error:
            raise HostError.from_os(f'read "{path}"', error) from error
        if not is_valid:
            raise FetchError(
                f'the signature of "{name}" is wrong: the file is not what the owner of the key '
                "signed; it was not used",
                FetchFailure.SIGNATURE_MISMATCH,
            )

    def _verify_pem(self, path: Path) -> bool:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(self.key.encode())
        except ValueError as error:
            raise _unusable(f"the public key is damaged: {error}") from error
        signature = _without_base64(self.content)
        if isinstance(key, Ed25519PublicKey):
            return _is_valid_ed25519(key, signature, _whole(path))
        if isinstance(key, EllipticCurvePublicKey) and key.curve.name == "secp256r1":
            return _is_valid_ecdsa(key, signature, path)
        raise _unusable("the public key is neither Ed25519 nor ECDSA P-256")

    def _verify_openpgp(self, path: Path) -> bool:
        """Verify with the program gpg and a keyring that has this key only."""
        with tempfile.TemporaryDirectory(prefix="rdd-gpg-") as directory:
            home = Path(directory)
            signature = home / "signature"
            signature.write_bytes(self.content)
            ring = home / "key.asc"
            ring.write_text(self.key)
            gpg = ("gpg", "--homedir", home, "--batch", "--no-autostart", "--no-auto-key-retrieve")
            try:
                imported = run_blocking(
                    *gpg, "--status-fd", "1", "--import", ring,
                    timeout_s=_GPG_S, remedy="install it",
                )  # fmt: skip
            except HostError as error:
                raise _unusable(str(error)) from error
            if "[GNUPG:] IMPORT_OK " not in imported.output:
                raise _unusable("the public key is not one of OpenPGP")
            done = run_blocking(
                *gpg, "--status-fd", "1", "--trust-model", "always", "--verify", signature, path,
                timeout_s=_GPG_S,
            )  # fmt: skip
            words = [line.split()[1] for line in done.output.splitlines() if "[GNUPG:] " in line]
            if problem := next((_PROBLEMS[word] for word in words if word in _PROBLEMS), ""):
                raise _unusable(problem)
            return done.status == 0 and "VALIDSIG" in words and "GOODSIG" in words


@dataclass(frozen=True, slots=True)
class _Minisign:
    """The file of minisign and its key."""

    algorithm: bytes
    key_id: bytes
    signature: bytes
    trusted_comment: bytes
    comment_signature: bytes
    public_id: bytes
    public_key: bytes

    @classmethod
    def of(cls, content: bytes, key: str) -> "_Minisign":
        lines = content.splitlines()
        try:
            own = base64.b64decode(key.strip().splitlines()[-1], validate=True)
            if len(own) != 42 or own[:2] != b"Ed":
                raise ValueError
        except (ValueError, IndexError) as error:
            raise _unusable("the public key is none of PEM, minisign and OpenPGP") from error
        prefix = b"trusted comment: "
        try:
            first, last = (base64.b64decode(lines[at], validate=True) for at in (1, 3))
            if len(first) != 74 or len(last) != 64 or not lines[2].startswith(prefix):
                raise ValueError
        except (ValueError, IndexError) as error:
            raise _unusable("the signature is not one of minisign") from error
        comment = lines[2].removeprefix(prefix)
        return cls(first[:2], first[2:10], first[10:], comment, last, own[2:10], own[10:])

    def verify(self, path: Path) -> bool:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if self.key_id != self.public_id or self.algorithm not in (b"Ed", b"ED"):
            return False
        key = Ed25519PublicKey.from_public_bytes(self.public_key)
        if self.algorithm == b"ED":
            with path.open("rb") as file:
                signed = hashlib.file_digest(file, "blake2b").digest()
        else:
            signed = _whole(path)
        return _is_valid_ed25519(key, self.signature, signed) and _is_valid_ed25519(
            key, self.comment_signature, self.signature + self.trusted_comment
        )


def _is_valid_ed25519(key: "Ed25519PublicKey", signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _is_valid_ecdsa(key: "EllipticCurvePublicKey", signature: bytes, path: Path) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    try:
        key.verify(signature, digest, ECDSA(Prehashed(SHA256())))
    except InvalidSignature:
        return False
    return True


def _without_base64(content: bytes) -> bytes:
    """Return the bytes of a signature, which cosign writes as base64."""
    try:
        return base64.b64decode(content.strip(), validate=True)
    except binascii.Error:
        return content


def _whole(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_UNHASHED_BYTES:
        raise _unusable(
            f"the signature is over the whole file, which is larger than {MAX_UNHASHED_BYTES} bytes"
        )
    return path.read_bytes()


def _unusable(problem: str) -> FetchError:
    return FetchError(
        f"the signature cannot be verified: {problem}", FetchFailure.SIGNATURE_MISMATCH
    )
