# SPDX-License-Identifier: Apache-2.0
"""Signatures of publishers: where they are, and the keys that verify them.

A key that the catalogue or a Resource has is used as it is. Otherwise it is read from the
publisher's URL. The first one that verifies a signature is kept in the cache of the user: all
later files must be signed with it, so whoever controls the publisher's server one day cannot
replace the key together with a file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rdd.fetch.cache import Cache
from rdd.fetch.failures import FetchError
from rdd.fetch.network import DIRECT, Network
from rdd.fetch.signatures import SIGNATURE_BYTES, Signature
from rdd.fetch.small import read_small
from rdd.host.directories import make_private_dir
from rdd.host.files import read_text, write_atomically

KEY_BYTES: Final = 256 << 10
"""The largest file of keys; that of Helm has those of all maintainers."""

Signed = Literal["file", "checksums"]


@dataclass(frozen=True, slots=True)
class PublisherSignature:
    """A detached signature at its publisher."""

    url: str
    signed: Signed
    key: str = ""
    key_url: str = ""
    """Where the key is; used without a `key`."""

    async def read(self, cache: Cache, network: Network = DIRECT) -> Signature:
        """Read the signature, and its key if it is not known. Raises HostError."""
        found = await read_small(self.url, limit_bytes=SIGNATURE_BYTES, network=network)
        if self.key:
            return Signature(found.content, self.key)
        path = cache.key_path(self.key_url)
        key = read_text(path) or ""
        if not key:
            response = await read_small(self.key_url, limit_bytes=KEY_BYTES, network=network)
            key = response.content.decode("utf-8", "replace")
        return _WithReadKey(found.content, key, self.key_url, path)


@dataclass(frozen=True, slots=True)
class _WithReadKey(Signature):
    """A signature whose key was read from its publisher, now or before."""

    key_url: str
    kept: Path
    """Where the key is kept once it has verified a signature."""

    def verify(self, path: Path, name: str) -> None:
        is_kept = self.kept.exists()
        try:
            Signature.verify(self, path, name)
        except FetchError as error:
            source = f'; the key is that of "{self.key_url}"'
            if is_kept:
                source += (
                    " when it was first used; if the publisher has another one now, remove "
                    f'"{self.kept}"'
                )
            raise FetchError(f"{error}{source}", error.failure) from error
        if not is_kept:
            make_private_dir(self.kept.parent)
            write_atomically(self.kept, self.key)
