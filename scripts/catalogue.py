# SPDX-License-Identifier: Apache-2.0
"""Fill in the digests and sizes of the catalogue of tools, from the publishers (make catalogue).

    scripts/catalogue.py [--latest] [TOOL…]

A file with a checksum file of its publisher gets the digest from there, and its size from the
server. A file without one is downloaded, and gets the digest of what was received: whoever
commits the result vouches for it. Digests that the catalogue has are never changed: a file that
changed under its URL fails. With --latest the newest version of each publisher is added first.
The public key of a publisher that signs is added in the same way: once, as it was received.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from rdd.fetch.cache import Cache
from rdd.fetch.fetching import fetch, published_digest, remote_size
from rdd.fetch.network import DIRECT
from rdd.fetch.publisher_signatures import KEY_BYTES
from rdd.fetch.small import read_small
from rdd.host.errors import HostError
from rdd.toolbox.catalogue import Catalogue, CatalogueFile, Tool

_PATH = Path(__file__).resolve().parent.parent / "src/rdd/toolbox/catalogue.json"
_LIST_BYTES = 4 << 20
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--latest", action="store_true", help="add the newest versions first")
    parser.add_argument("--file", type=Path, default=_PATH, help="the catalogue")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help="default: all tools")
    options = parser.parse_args()
    data = json.loads(options.file.read_text())
    names = options.tools or sorted(data["tools"])
    failures = 0
    for name in names:
        catalogue = Catalogue.parse(json.dumps(data))
        if options.latest:
            _add_latest(catalogue.tool(name), data["tools"][name])
            catalogue = Catalogue.parse(json.dumps(data))
        failures += asyncio.run(_add_key(name, data["tools"][name]))
        failures += asyncio.run(_fill(catalogue.tool(name), data["tools"][name]))
        options.file.write_text(json.dumps(data, indent=1) + "\n")
    return 1 if failures else 0


def _add_latest(tool: Tool, data: dict[str, Any]) -> None:
    with urllib.request.urlopen(tool.releases_url, timeout=30) as response:
        found = tool.find_versions(response.read(_LIST_BYTES).decode())
    if found and found[-1] not in data["versions"]:
        data["versions"].append(found[-1])


async def _add_key(name: str, data: dict[str, Any]) -> int:
    """Add the public key of a publisher if it is missing; return the number of failures."""
    found = data.get("publicKey")
    if found is None or "key" in found:
        return 0
    try:
        response = await read_small(found["url"], limit_bytes=KEY_BYTES, network=DIRECT)
    except HostError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    text = response.content.decode("utf-8", "replace")
    if _KEY not in text:
        sys.stderr.write(f'{name}: "{found["url"]}" is not a public key\n')
        return 1
    found["key"] = text
    return 0


async def _fill(tool: Tool, data: dict[str, Any]) -> int:
    """Add what is missing to the data of a tool; return the number of failures."""
    failures = 0
    for version in tool.versions:
        known = data.setdefault("digests", {}).setdefault(version, {})
        for platform in tool.platforms:
            for file in tool.files(version, platform):
                if file.url in known:
                    continue
                try:
                    known[file.url] = await _measure(file)
                except HostError as error:
                    failures += 1
                    sys.stderr.write(f"{tool.name} {version}: {error}\n")
        if not known:
            del data["digests"][version]
    if not data["digests"]:
        del data["digests"]
    return failures


async def _measure(file: CatalogueFile) -> dict[str, Any]:
    if file.checksum_url:
        digest = await published_digest(file.checksum_url, file.name)
        size = await remote_size(file.url)
        if size is not None:
            return {"digest": str(digest), "size": size}
    with tempfile.TemporaryDirectory() as directory:
        cache = Cache(Path(directory))
        expected = str(digest) if file.checksum_url else ""
        received = await fetch(file.url, expected, cache=cache, report=lambda _: None)
        return {"digest": str(received), "size": cache.path(received).stat().st_size}


if __name__ == "__main__":
    sys.exit(main())
