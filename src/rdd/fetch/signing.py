# SPDX-License-Identifier: Apache-2.0
"""Keys that sign packages: Ed25519, identified by the fingerprint of the public key.

The user has one key, created when it is first needed; `--key` selects another one. The signed
bytes begin with the purpose, so that a signature cannot be used for anything else.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rdd.fetch.failures import FetchError, FetchFailure
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PURPOSE: Final = b"rdd package 1\n"


@dataclass(frozen=True, slots=True)
class SignedBy:
    """A signature that is valid, and the key that created it."""

    fingerprint: str

    @classmethod
    def of(cls, signature: bytes, content: bytes, name: str) -> "SignedBy":
        """Verify a signature. Raises FetchError."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            found = json.loads(signature)
            public = base64.b64decode(found["publicKey"], validate=True)
            key = Ed25519PublicKey.from_public_bytes(public)
            key.verify(base64.b64decode(found["signature"], validate=True), _PURPOSE + content)
        except (ValueError, KeyError, TypeError, InvalidSignature) as error:
            raise FetchError(
                f'the signature of "{name}" is wrong: the package is damaged or was changed; '
                "nothing was installed",
                FetchFailure.SIGNATURE_MISMATCH,
            ) from error
        return cls(_fingerprint(public))


class SigningKey:
    """A private key."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """Read a private key in PEM form. Raises HostError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        text = read_text(path)
        if text is None:
            raise HostError(f'there is no key "{path}"')
        try:
            key = load_pem_private_key(text.encode("utf-8", "surrogateescape"), None)
        except (ValueError, TypeError) as error:  # damaged, or with a passphrase
            raise HostError(
                f'"{path}" is not a private key in PEM form without a passphrase'
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise HostError(
                f'"{path}" is not an Ed25519 key; create one with: '
                "openssl genpkey -algorithm ed25519"
            )
        return cls(key)

    @classmethod
    def of_user(cls, path: Path) -> "SigningKey":
        """Return the key at a path, created if it is missing. Raises HostError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        if not path.exists():
            made = Ed25519PrivateKey.generate()
            pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            make_private_dir(path.parent)
            write_new(path, pem, mode=0o600)  # another process may be faster
        return cls.read(path)

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self._public)

    def sign(self, content: bytes) -> bytes:
        """Return the file with the signature of a content; the same for the same content."""
        signature = self._key.sign(_PURPOSE + content)
        found = {
            "publicKey": base64.b64encode(self._public).decode(),
            "signature": base64.b64encode(signature).decode(),
        }
        return (json.dumps(found, indent=1) + "\n").encode()

    @property
    def _public(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def key_path(environment: Mapping[str, str], home: Path) -> Path:
    """Return the path of the user's key, existing or not."""
    configuration = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return configuration / "rdd" / "package-key.pem"


def _fingerprint(public: bytes) -> str:
    return f"sha256:{hashlib.sha256(public).hexdigest()}"
