# SPDX-License-Identifier: Apache-2.0
"""`rdd package install`: verify a package, then install what it has for this platform.

The order: the signature, every file, tools and Kubernetes, settings, images. So a damaged package
changes nothing, and the settings find the engine that they name.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rdd.cli.commands.app.object import APP, app_schema, write
from rdd.cli.commands.cache.entries import cache_of
from rdd.cli.commands.package.create import host_platform
from rdd.cli.commands.package.show import settings_lines, title
from rdd.cli.commands.tools.selection import toolbox_of
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch import checkout
from rdd.fetch.cache import Cache
from rdd.fetch.packages import Manifest, Package, PackagedFile, opened_package
from rdd.fetch.signing import SigningKey, key_path
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.profiles.current import sources_of
from rdd.toolbox.catalogue import Catalogue

_PROGRAM_MODE = 0o755


def run(call: Call) -> int:
    path = Path(call.args[0]).absolute()
    platform = host_platform()
    cache = cache_of(call)
    try:
        with opened_package(path) as package:
            _check_key(call, package, path)
            _check_profile(call, package, path)
            manifest = package.manifest
            wanted = [file for file in manifest.files if file.platform == platform]
            if not wanted:
                raise CommandError(
                    f'"{path}" has nothing for {platform}; it is for '
                    f"{', '.join(manifest.platforms)}"
                )
            settings = settings_lines(manifest) if call.flags.truth("settings") else []
            lines = ["This installs:", *(f"  {title(file)}" for file in wanted)]
            confirm(call, [*lines, *(f"  setting {line}" for line in settings)])
            package.add_to(cache, platform)
        for file in wanted:
            if file.url:
                cache.record_verified(file.url, file.digest)
        _install_tools(call, wanted, cache)
    except HostError as error:
        raise CommandError(str(error)) from error
    images = [file for file in wanted if file.content == "images"]
    if settings or images:
        _apply(call, manifest if settings else Manifest(()), images, cache)
    call.out.write(f"installed {len(wanted)} files of {path}\n")
    return 0


def _check_key(call: Call, package: Package, path: Path) -> None:
    """Raise CommandError unless the package is signed by a key that is trusted."""
    if package.signed_by is None:
        if not call.flags.truth("allow-unsigned"):
            raise CommandError(
                f'"{path}" is not signed; nothing was installed. To install it nevertheless: '
                "--allow-unsigned"
            )
        return
    found = package.signed_by.fingerprint
    trusted = set(call.flags.texts("trust-key"))
    own = key_path(call.environment.variables, call.instance.home)
    if own.exists():
        trusted.add(SigningKey.read(own).fingerprint)
    if found not in trusted:
        raise CommandError(
            f'"{path}" is signed by {found}, which is not trusted; nothing was installed. Compare '
            f"it with what `rdd package key` prints for its creator, then add --trust-key {found}"
        )


def _check_profile(call: Call, package: Package, path: Path) -> None:
    """Raise CommandError for what the administrator does not allow."""
    sources = sources_of(call.instance)
    problems = [sources.url_problem(str(path))]
    problems += [
        sources.digest_problem(file.url, str(file.digest))
        for file in package.manifest.files
        if file.url
    ]
    if found := next(filter(None, problems), ""):
        raise CommandError(f"{found}; nothing was installed")


def _install_tools(call: Call, wanted: Sequence[PackagedFile], cache: Cache) -> None:
    """Install the tools of a package. Raises HostError."""
    from rdd.toolbox.installation import FetchedFile

    catalogue = Catalogue.shipped()
    versions = dict.fromkeys((one.tool, one.version) for one in wanted if one.content == "tool")
    for name, version in versions:
        tool = catalogue.tool(name)
        packaged = {one.url: one for one in wanted if (one.tool, one.version) == (name, version)}
        files = tool.files(version, host_platform())
        if absent := [file.url for file in files if file.url not in packaged]:
            raise CommandError(f"the package has only a part of {name} {version}: no {absent[0]}")
        if tool.role == "kubernetes":
            for file in files:
                source = cache.path(packaged[file.url].digest)
                _place(call, version, file.name, source, is_program=file.content == "programs")
            continue
        fetched = [
            FetchedFile(file, cache.path(packaged[file.url].digest), packaged[file.url].digest)
            for file in files
        ]
        toolbox_of(call).install(tool, version, fetched)


def _place(call: Call, version: str, name: str, source: Path, *, is_program: bool) -> None:
    """Put a file of Kubernetes where machines find it; the catalogue lists the program first."""
    from rdd.vm.drivers.kubernetes_files import program_of, release_directory

    environment = {"HOME": str(call.instance.home), **call.environment.variables}
    directory = release_directory(f"v{version}", environment)
    make_private_dir(directory)
    if not is_program:
        checkout.link_or_copy(source, directory / name)
        return
    program = program_of(f"v{version}", environment)
    if not program.exists():
        checkout.copy(source, program, mode=_PROGRAM_MODE)


def _apply(call: Call, manifest: Manifest, images: Sequence[PackagedFile], cache: Cache) -> None:
    """Apply the settings; start the engine and load images if there are any."""
    from rdd.cli.commands.app.settling import wait_until_settled
    from rdd.cli.framework.progress import shown

    with shown(call) as progress:
        progress.phase("control plane")
        with connected(call, progress=progress) as connection:
            spec = dict(manifest.settings)
            before = (get_or_none(connection, APP) or {}).get("spec") or {}
            if images:
                spec["running"] = True
            elif "running" not in before:
                spec["running"] = False
            app = write(call, connection, spec, app_schema(connection))
            if call.flags.truth("wait") or images:
                timeout_s = call.flags.seconds("timeout")
                wait_until_settled(call, connection, app, timeout_s=timeout_s, progress=progress)
        for file in images:
            progress.phase("images", ", ".join(file.references))
            asyncio.run(_load(call, cache.path(file.digest), file.references))


async def _load(call: Call, archive: Path, names: Sequence[str]) -> None:
    from rdd.engine.errors import EngineFailure
    from rdd.engine.image_archives import load_images

    try:
        await load_images(archive, call.instance.docker_socket, names)
    except (EngineFailure, HostError, OSError) as error:
        raise CommandError(f"images cannot be loaded: {error}; the rest is installed") from error
