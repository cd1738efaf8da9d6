# SPDX-License-Identifier: Apache-2.0
"""`rdd tools install`: fetch, verify and install tools."""

from collections.abc import Sequence

from rdd.cli.commands.app.object import APP
from rdd.cli.commands.tools.consent import require_consent
from rdd.cli.commands.tools.plugins import offer_link
from rdd.cli.commands.tools.selection import Wanted, monitored_catalogue, toolbox_of, wanted
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.host.errors import HostError


def run(call: Call) -> int:
    digests = call.flags.texts("digest")
    if digests and len(call.args) > 1:
        raise CommandError("--digest needs a single tool")
    catalogue = monitored_catalogue(call)
    install(call, [wanted(catalogue, text, digests) for text in dict.fromkeys(call.args)])
    return 0


def install(call: Call, wanted: Sequence[Wanted]) -> None:
    """Install tools, or put installed versions to use. Raises CommandError."""
    toolbox = toolbox_of(call)
    absent = [one for one in wanted if toolbox.find(one.tool.name, one.version) is None]
    if absent:
        _fetch_and_install(call, absent)
    for one in wanted:
        try:
            found = toolbox.find(one.tool.name, one.version)
            if found is None:
                continue  # removed meanwhile by another command
            if one.tool.role != "engine" and not found.is_current:
                toolbox.select(one.tool.name, one.version)
        except HostError as error:
            raise CommandError(str(error)) from error
        action = "installed" if one in absent else "is installed already"
        call.out.write(f"{one.title} {action}: {found.directory}\n")
        if one.tool.role == "engine":
            call.out.write(f"To run it: rdd set containerEngine.version={one.version}\n")
        elif one.tool.role == "cli-plugin":
            for program in found.programs:
                offer_link(call, toolbox.bin_dir / program)


def _fetch_and_install(call: Call, absent: Sequence[Wanted]) -> None:
    from rdd.cli.commands.tools import fetching
    from rdd.cli.framework.progress import shown

    toolbox = toolbox_of(call)
    with shown(call, delay_s=0.5) as progress, connected(call, progress=progress) as connection:
        spec = (get_or_none(connection, APP) or {}).get("spec") or {}
        missing = [(one, fetching.missing_files(call, connection, one)) for one in absent]
        with progress.aside():
            described = [
                (f"{one.title} ({one.tool.title}, {one.tool.license})", files)
                for one, files in missing
                if files
            ]
            require_consent(call, described, spec)
        try:
            fetching.begin(connection, absent)
            # All of them first: a failed fetch then installs nothing at all.
            fetched = [(one, fetching.fetched(connection, one, progress)) for one in absent]
            for one, files in fetched:
                progress.phase(one.title, "Installing")
                toolbox.install(one.tool, one.version, files)
        except HostError as error:
            raise CommandError(str(error)) from error
        finally:
            fetching.release(connection, absent)
