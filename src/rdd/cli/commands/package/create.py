# SPDX-License-Identifier: Apache-2.0
"""`rdd package create`: collect what an instance needs, and write it as one signed file."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdd.api.types import Object
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.cache.entries import cache_of
from rdd.cli.commands.tools.consent import require_consent
from rdd.cli.commands.tools.selection import Wanted, toolbox_of
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch.cache import Cache
from rdd.fetch.digests import Digest
from rdd.fetch.network import Network
from rdd.fetch.packages import Manifest, PackagedFile, check_target, write_package
from rdd.fetch.signatures import Signature
from rdd.fetch.signing import SigningKey, key_path
from rdd.host.errors import HostError
from rdd.profiles.current import sources_of
from rdd.toolbox.catalogue import Catalogue, CatalogueFile, platform_of

if TYPE_CHECKING:
    from rdd.cli.framework.progress import Progress

_SETTINGS = ("certificates", "containerEngine", "kubernetes", "registries")
"""Settings that do not depend on this machine and its network."""


def run(call: Call) -> int:
    from rdd.cli.framework.progress import shown

    target = Path(call.args[0]).absolute()
    cache = cache_of(call)
    try:
        check_target(target)
        key = None if call.flags.truth("unsigned") else _key(call)
        with shown(call, delay_s=0.5) as progress:
            with connected(call, progress=progress) as connection:
                spec = (get_or_none(connection, APP) or {}).get("spec") or {}
            wanted = list(_wanted(call, spec))
            digests = _known_digests(call, cache, wanted)
            missing = [(one.title, _missing(one.files, digests, cache)) for _, one in wanted]
            with progress.aside():
                require_consent(call, [each for each in missing if each[1]], spec)
            files = asyncio.run(_collect(call, wanted, digests, cache, spec, progress))
            files += asyncio.run(_images(call, cache, progress))
            if not files:
                raise CommandError(
                    "there is nothing to package: name tools with --tool or images with --image"
                )
            is_included = call.flags.truth("settings")
            settings = {name: spec[name] for name in _SETTINGS if is_included and spec.get(name)}
            progress.phase("package", f"Writing {target}")
            manifest = Manifest(tuple(files), settings)
            write_package(manifest, cache, target, key)
    except HostError as error:
        raise CommandError(str(error)) from error
    signed = "not signed" if key is None else f"signed by {key.fingerprint}"
    call.out.write(f"{target}: {len(files)} files, {signed}\n")
    return 0


def host_platform() -> str:
    """Return the platform of this host as packages name it."""
    system = os.uname()
    return platform_of(system.sysname, system.machine)


def _key(call: Call) -> SigningKey:
    if path := call.flags.text("key"):
        return SigningKey.read(Path(path).absolute())
    return SigningKey.of_user(key_path(call.environment.variables, call.instance.home))


def _wanted(call: Call, spec: Object) -> Iterator[tuple[str, Wanted]]:
    """Yield the tools to package, for each platform."""
    from rdd.controllers.app.k3s_versions_table import release_of

    catalogue = Catalogue.shipped()
    versions = {(one.tool, one.version) for one in toolbox_of(call).installed()}
    kubernetes = spec.get("kubernetes") or {}
    if kubernetes.get("enabled"):
        versions.add(("k3s", release_of(kubernetes["version"]).removeprefix("v")))
    if version := (spec.get("containerEngine") or {}).get("version"):
        versions.add(("engine", version))
    for text in call.flags.texts("tool"):
        name, _, version = text.partition("=")
        chosen = version.removeprefix("v") or catalogue.tool(name).latest
        if version:
            versions = {one for one in versions if one[0] != name}
        versions.add((name, chosen))
    for platform in dict.fromkeys(call.flags.texts("platform") or [host_platform()]):
        for name, version in sorted(versions):
            tool = catalogue.tool(name)
            yield platform, Wanted(tool, version, tool.files(version, platform))


def _known_digests(
    call: Call, cache: Cache, wanted: Sequence[tuple[str, Wanted]]
) -> dict[str, Digest]:
    """Return the digests of URLs: of the catalogue, of installed packages and tools."""
    from rdd.toolbox.installation import RECORD

    found: dict[str, Digest] = {}
    toolbox = toolbox_of(call)
    for _, one in wanted:
        recorded: Mapping[str, Any] = {}
        path = toolbox.directory(one.tool.name, one.version) / RECORD
        try:
            recorded = json.loads(path.read_text())["files"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not installed
        for file in one.files:
            if digest := file.digest or recorded.get(file.url):
                found[file.url] = Digest.parse(str(digest))
            elif verified := cache.verified(file.url):
                found[file.url] = verified
            elif file.is_unverified:
                raise CommandError(
                    f"{one.title}: its publisher has no checksums for {file.url}; install it "
                    f"first: rdd tools install {one.tool.name}@{one.version} "
                    f"--digest {file.name}=sha256:…"
                )
    return found


def _missing(
    files: Sequence[CatalogueFile], digests: Mapping[str, Digest], cache: Cache
) -> list[CatalogueFile]:
    return [
        file
        for file in files
        if (digest := digests.get(file.url)) is None or cache.find(digest) is None
    ]


async def _collect(
    call: Call,
    wanted: Sequence[tuple[str, Wanted]],
    digests: Mapping[str, Digest],
    cache: Cache,
    spec: Object,
    progress: "Progress",
) -> list[PackagedFile]:
    """Fetch what the cache does not have; return all files. Raises HostError."""
    from rdd.fetch.fetching import fetch

    network = Network.of_settings(spec, sources_of(call.instance))
    found = []
    for platform, one in wanted:
        for file in one.files:
            progress.phase(one.title, f"Fetching {file.name}")
            network.check_digest(file.url, str(digests.get(file.url) or ""))
            digest = digests.get(file.url) or await _published(file, cache, network)
            await fetch(
                file.url,
                str(digest),
                cache=cache,
                report=lambda now: progress.detail(str(now)),
                network=network,
                signature=await _signature(file, digest, cache, network),
            )
            size = cache.path(digest).stat().st_size
            packaged = PackagedFile(digest, size, platform, "tool", one.tool.name, one.version)
            found.append(replace(packaged, url=file.url))
    return found


async def _published(file: CatalogueFile, cache: Cache, network: Network) -> Digest:
    """Return the digest of the publisher's checksum file. Raises HostError."""
    from rdd.fetch.fetching import published_digest

    wanted, signature = file.signature, None
    if wanted is not None and wanted.signed == "checksums":
        signature = await wanted.read(cache, network)
    return await published_digest(
        file.checksum_url, file.name, network=network, signature=signature
    )


async def _signature(
    file: CatalogueFile, digest: Digest, cache: Cache, network: Network
) -> Signature | None:
    """Read the signature of a file unless it was verified before. Raises HostError."""
    wanted = file.signature
    is_due = wanted is not None and wanted.signed == "file" and cache.verified(file.url) != digest
    return await wanted.read(cache, network) if wanted is not None and is_due else None


async def _images(call: Call, cache: Cache, progress: "Progress") -> list[PackagedFile]:
    """Save images of the engine to the cache. Raises CommandError, HostError."""
    references = list(dict.fromkeys(call.flags.texts("image")))
    if not references:
        return []
    from rdd.cli.commands.package.images import save
    from rdd.engine.errors import EngineFailure

    found = []
    for reference in references:
        progress.phase(f"image {reference}", "Saving")
        try:
            digest = await save(call.instance.docker_socket, reference, cache)
        except EngineFailure as error:
            raise CommandError(
                f'the image "{reference}" cannot be saved: {error}; images need the engine moby, '
                "running: rdd start"
            ) from error
        size = cache.path(digest).stat().st_size
        found.append(PackagedFile(digest, size, host_platform(), "images", references=(reference,)))
    return found
