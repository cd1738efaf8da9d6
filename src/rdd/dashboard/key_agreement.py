# SPDX-License-Identifier: Apache-2.0
"""The key agreement of a login (ECDH, P-256), in a process of its own.

    python -m rdd.dashboard.key_agreement < POINT      prints our point and the secret

Points and the secret are hexadecimal. The library for it would stay in the daemon's memory with
9 MiB for one operation per login; a process that ends returns them. The secret passes through
a pipe, which no other user can read.
"""

import sys


def agree(theirs: bytes) -> tuple[bytes, bytes]:
    """Return our public point and the shared secret. Raises ValueError for an invalid point."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = ec.SECP256R1()
    peer = ec.EllipticCurvePublicKey.from_encoded_point(curve, theirs)
    own = ec.generate_private_key(curve)
    public = own.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    return public, own.exchange(ec.ECDH(), peer)


def main() -> int:
    """Read a point and print the result; exit code 2 for an invalid point."""
    try:
        public, secret = agree(bytes.fromhex(sys.stdin.read().strip()))
    except ValueError:
        return 2
    sys.stdout.write(f"{public.hex()} {secret.hex()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
