# SPDX-License-Identifier: Apache-2.0
"""JSON Web Tokens with ES256, restricted to the features that service accounts need.

One key signs and verifies. `cryptography` is imported with the first token that is issued or
verified, never at start.
"""

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_SIZE = 32  # bytes of a P-256 coordinate
MAX_TOKEN_BYTES = 64 * 1024  # issued tokens are below 2 KiB; HTTP header limits are far lower


class TokenError(Exception):
    """The token does not prove an identity; the text is for TokenReview, not for the client."""


def encode(data: bytes) -> str:
    """Encode bytes as URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Decode URL-safe base64 without padding; raise ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def unverified_claims(token: str) -> dict[str, Any] | None:
    """Return the claims of a token WITHOUT verification; None if it is malformed."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        return None
    try:
        claims = orjson.loads(decode(parts[1]))
    except (ValueError, binascii.Error):
        return None
    return claims if isinstance(claims, dict) else None


class SigningKey:
    """An EC P-256 key as PEM, parsed on first use."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem
        self._loaded: EllipticCurvePrivateKey | None = None
        self._key_id = ""
        self._point: tuple[bytes, bytes] = (b"", b"")

    def _load(self) -> "EllipticCurvePrivateKey":
        if self._loaded is None:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            key = serialization.load_pem_private_key(self._pem, None)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.key_size != 8 * _SIZE:
                raise ValueError("the token signing key must be an EC P-256 key")
            public = key.public_key()
            info = public.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            numbers = public.public_numbers()
            # As in Kubernetes: a hash, so that the identifier cannot be mistaken for the key.
            self._key_id = encode(hashlib.sha256(info).digest())
            self._point = numbers.x.to_bytes(_SIZE, "big"), numbers.y.to_bytes(_SIZE, "big")
            self._loaded = key
        return self._loaded

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a signed token with these claims."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        key = self._load()
        header = orjson.dumps({"alg": "ES256", "kid": self._key_id})
        body = orjson.dumps(claims, option=orjson.OPT_SORT_KEYS)
        signed = f"{encode(header)}.{encode(body)}"
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encode(r.to_bytes(_SIZE, 'big') + s.to_bytes(_SIZE, 'big'))}"

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token signed by this key; raise TokenError."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        key = self._load()
        signed, _, signature_text = token.rpartition(".")
        try:
            header = orjson.loads(decode(signed.partition(".")[0]))
            signature = decode(signature_text)
            if not isinstance(header, dict):
                raise ValueError("the header is not an object")
        except (ValueError, binascii.Error) as e:
            raise TokenError("malformed token") from e
        if header.get("kid", self._key_id) != self._key_id:
            raise TokenError("invalid signature, no keys found")
        # The server determines the algorithm, never the token.
        if header.get("alg") != "ES256" or len(signature) != 2 * _SIZE:
            raise TokenError("go-jose/go-jose: error in cryptographic primitive")
        r, s = (int.from_bytes(part, "big") for part in (signature[:_SIZE], signature[_SIZE:]))
        try:
            key.public_key().verify(
                utils.encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature as e:
            raise TokenError("go-jose/go-jose: error in cryptographic primitive") from e
        claims = unverified_claims(token)
        if claims is None:
            raise TokenError("malformed token")
        return claims

    def key_set(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key Set."""
        self._load()
        x, y = self._point
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": encode(x),
            "y": encode(y),
        }
        return {"keys": [key]}
