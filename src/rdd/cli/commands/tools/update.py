# SPDX-License-Identifier: Apache-2.0
"""`rdd tools update`: install the newest versions of the installed tools.

The publishers' lists of versions are read when the command runs; the catalogue only says where
they are. An engine is reported, never changed: `containerEngine.version` selects it.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rdd.base.gotext import quote
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.tools.install import install
from rdd.cli.commands.tools.selection import Wanted, catalogue_of, toolbox_of, wanted
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch.failures import FetchError
from rdd.fetch.network import Network
from rdd.profiles.current import sources_of
from rdd.toolbox.catalogue import Tool, version_key

if TYPE_CHECKING:
    from rdd.toolbox.installation import InstalledVersion

_LIST_BYTES = 4 << 20


class Newer(NamedTuple):
    """A version of a tool that is newer than the installed ones."""

    wanted: Wanted
    present: str

    @property
    def can_be_verified(self) -> bool:
        return not any(file.is_unverified for file in self.wanted.files)


def run(call: Call) -> int:
    found = newer(call, call.args)
    report(call, found)
    if not call.flags.truth("check"):
        install_newer(call, found)
    return 0


def newer(call: Call, names: Sequence[str] = ()) -> list[Newer]:
    """Return newer versions of installed tools. Raises CommandError if no list can be read."""
    present: dict[str, InstalledVersion] = {}
    for one in toolbox_of(call).installed():
        present[one.tool] = one  # the newest comes last
    for name in names:
        if name not in present:
            raise CommandError(f"{quote(name)} is not installed; `rdd tools ls` lists all")
    catalogue = catalogue_of()
    tools = [
        catalogue.tools[name]
        for name in present
        if name in catalogue.tools and (not names or name in names)
    ]
    if not tools:
        return []
    latest = asyncio.run(_latest(tools, network_of(call)))
    catalogue = catalogue.with_versions(latest)
    return [
        Newer(wanted(catalogue, tool.name), present[tool.name].version)
        for tool in tools
        if version_key(catalogue.tool(tool.name).latest) > version_key(present[tool.name].version)
    ]


def report(call: Call, found: Sequence[Newer]) -> None:
    """Print what is newer, and what it takes to install what is not installed on request."""
    for one in found:
        line = f"{one.wanted.title} is available (installed: {one.present})"
        if not one.can_be_verified:
            names = [file.name for file in one.wanted.files]
            flags = " ".join(f"--digest {name}=sha256:…" for name in names)
            name, version = one.wanted.tool.name, one.wanted.version
            line += f"; its publisher has no checksums: rdd tools install {name}@{version} {flags}"
        elif one.wanted.tool.role == "engine":
            line += f"; to run it: rdd set containerEngine.version={one.wanted.version}"
        call.out.write(f"{line}\n")
    if not found:
        any_installed = toolbox_of(call).installed()
        call.out.write(
            f"{'The tools are up to date' if any_installed else 'No tools are installed'}.\n"
        )
    call.out.flush()


def install_newer(call: Call, found: Sequence[Newer]) -> None:
    """Install what can be verified, with consent."""
    chosen = [
        one.wanted for one in found if one.can_be_verified and one.wanted.tool.role != "engine"
    ]
    if chosen:
        install(call, chosen)


def network_of(call: Call) -> Network:
    """Return proxies, authorities and mirror of the App; nothing is started for it."""
    from rdd.cli.commands.service.calls import service_for

    if service_for(call).running() is None:
        return Network(sources=sources_of(call.instance))
    with connected(call, start=False) as connection:
        spec = (get_or_none(connection, APP) or {}).get("spec") or {}
        return Network.of_settings(spec, sources_of(call.instance))


async def _latest(tools: Sequence[Tool], network: Network) -> dict[str, tuple[str, ...]]:
    from rdd.fetch.small import read_small

    async def versions(tool: Tool) -> tuple[str, ...]:
        found = await read_small(tool.releases_url, network=network, limit_bytes=_LIST_BYTES)
        return tool.find_versions(found.content.decode("utf-8", "replace"))[-1:]

    try:
        found = await asyncio.gather(*map(versions, tools))
    except FetchError as error:
        raise CommandError(f"cannot look for newer versions: {error}") from error
    return dict(zip((tool.name for tool in tools), found, strict=True))
