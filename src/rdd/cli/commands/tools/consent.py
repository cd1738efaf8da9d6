# SPDX-License-Identifier: Apache-2.0
"""Consent to fetch: what, from where, how large and why, before the first byte.

Consent is the answer on a terminal, `--yes`, or the setting `downloads.automatic`. Files that the
cache has need none.
"""

import asyncio
import sys
from collections.abc import Sequence

from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.framework.confirm import agreed, is_interactive
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch.network import Network
from rdd.profiles.current import sources_of
from rdd.toolbox.catalogue import CatalogueFile

Described = tuple[str, Sequence[CatalogueFile]]
"""What is fetched, and its files."""


def require_consent(call: Call, wanted: Sequence[Described], spec: Object) -> None:
    """Return if the files may be fetched. Raises CommandError.

    `spec` is that of the App, or empty.
    """
    if not wanted or call.flags.truth("yes") or (spec.get("downloads") or {}).get("automatic"):
        return
    titles = ", ".join(title for title, _ in wanted)
    if not is_interactive():
        raise CommandError(
            f"{titles}: not fetched without consent; add --yes, "
            "or run: rdd set downloads.automatic=true"
        )
    network = Network.of_settings(spec, sources_of(call.instance))
    sizes = asyncio.run(_sizes([file for _, files in wanted for file in files], network))
    lines = []
    for title, files in wanted:
        lines.append(title)
        lines += [f"  {file.url} ({sizes[file.url]}, {_verified_by(file)})" for file in files]
    sys.stderr.write("".join(f"{line}\n" for line in lines) + "Fetch and install it? [y/N] ")
    sys.stderr.flush()
    if not agreed():
        raise CommandError("not confirmed; nothing was fetched")


async def _sizes(files: Sequence[CatalogueFile], network: Network) -> dict[str, str]:
    from rdd.fetch.fetching import remote_size

    async def size(file: CatalogueFile) -> str:
        found = file.size_bytes or await remote_size(file.url, network=network)
        return "size unknown" if not found else binary(found)

    texts = await asyncio.gather(*map(size, files))
    return dict(zip((file.url for file in files), texts, strict=True))


def _verified_by(file: CatalogueFile) -> str:
    checked = "digest known" if file.digest else "checksum of the publisher"
    return f"{checked} and signature" if file.signature is not None else checked
