# SPDX-License-Identifier: Apache-2.0
"""Which tools a command is about: the catalogue, the toolbox, and the arguments."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.base.gotext import quote
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch.digests import Digest
from rdd.host.errors import HostError
from rdd.toolbox.catalogue import Catalogue, CatalogueFile, Tool, platform_of
from rdd.toolbox.listing import tools_of, with_lists

if TYPE_CHECKING:
    from rdd.toolbox.installation import InstalledVersion, Toolbox


_MONITORS = f"{names.RDD_API}/urlmonitors"
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """One version of a tool, and its files for this host."""

    tool: Tool
    version: str
    files: tuple[CatalogueFile, ...]

    @property
    def title(self) -> str:
        return f"{self.tool.name} {self.version}"


def toolbox_of(call: Call) -> "Toolbox":
    """Return the toolbox of the instance of a call."""
    from rdd.toolbox.installation import Toolbox

    return Toolbox(call.instance.tools_dir)


def catalogue_of() -> Catalogue:
    """Return the known tools, without those that `kubernetes.version` selects."""
    return tools_of(Catalogue.shipped())


def monitored_catalogue(call: Call) -> Catalogue:
    """Return the known tools with the versions of the publishers' lists that are monitored.

    Without a control plane that responds, those of this release.
    """
    from rdd.cli.commands.service.calls import service_for

    if service_for(call).running() is None:
        return catalogue_of()
    try:
        with connected(call, start=False, timeout_s=_TIMEOUT_S) as connection:
            listed = get_or_none(connection, _MONITORS) or {}
    except CommandError as error:
        call.log.warning(f"the monitored lists of versions are not known: {error}")
        return catalogue_of()
    return with_lists(catalogue_of(), listed.get("items") or [])


def wanted(catalogue: Catalogue, text: str, digests: Sequence[str] = ()) -> Wanted:
    """Return what `NAME` or `NAME@VERSION` names. Raises CommandError."""
    name, at, version = text.partition("@")
    if name == "k3s":
        raise CommandError("k3s is not a tool: `rdd set kubernetes.version=VERSION` selects it")
    try:
        tool = catalogue.tool(name)
        chosen = version.removeprefix("v") if at else tool.latest
        system = os.uname()
        files = tool.files(chosen, platform_of(system.sysname, system.machine))
    except HostError as error:
        raise CommandError(str(error)) from error
    return Wanted(tool, chosen, _with_digests(files, digests))


def _with_digests(
    files: tuple[CatalogueFile, ...], given: Sequence[str]
) -> tuple[CatalogueFile, ...]:
    """Return files with the digests of the user. Raises CommandError."""
    found = {file.name: file for file in files}
    for text in given:
        name, equals, digest = text.rpartition("=")
        if not equals and len(files) > 1:
            raise CommandError(
                f"--digest {quote(text)}: there are several files; write FILE=DIGEST for each of "
                f"{', '.join(found)}"
            )
        name = name if equals else files[0].name
        if name not in found:
            raise CommandError(
                f"--digest {quote(text)}: there is no file {quote(name)}; "
                f"the files are {', '.join(found)}"
            )
        try:
            parsed = str(Digest.parse(digest))
        except HostError as error:
            raise CommandError(f"--digest: {error}") from error
        if found[name].digest not in ("", parsed):
            raise CommandError(
                f"--digest: the catalogue has {found[name].digest} for {name}, not {parsed}"
            )
        found[name] = replace(found[name], digest=parsed)
    return tuple(found.values())


def installed(call: Call, given: Sequence[str]) -> "list[InstalledVersion]":
    """Return the installed versions that arguments name. Raises CommandError."""
    toolbox = toolbox_of(call)
    found: list[InstalledVersion] = []
    for text in given:
        name, _, version = text.partition("@")
        every = [one for one in toolbox.installed() if one.tool == name]
        matching = [one for one in every if version.removeprefix("v") in ("", one.version)]
        if not matching:
            known = f"; installed: {', '.join(one.version for one in every)}" if every else ""
            raise CommandError(f"{quote(text)} is not installed{known}; `rdd tools ls` lists all")
        found += [one for one in matching if one not in found]
    return found
