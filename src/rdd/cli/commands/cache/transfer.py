# SPDX-License-Identifier: Apache-2.0
"""`rdd cache export` and `rdd cache import`: move files between machines."""

from pathlib import Path

from rdd.cli.commands.cache.entries import cache_of, find_entries
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.fetch.transport import export_entries, import_entries
    from rdd.host.errors import HostError

    path = Path(call.args[0]).absolute()
    try:
        if call.path[-1] == "import":
            with waiting(call, f"importing {path}"):
                added = import_entries(cache_of(call), path)
            call.log.info(f"imported {len(added)} files")
            return 0
        given = call.args[1:]
        entries = find_entries(call, given) if given else list(cache_of(call).entries())
        if not entries:
            raise CommandError("the cache is empty; nothing was exported")
        with waiting(call, f"exporting {len(entries)} files"):
            count = export_entries(entries, path)
    except HostError as error:
        raise CommandError(str(error)) from error
    call.log.info(f"exported {count} files")
    call.out.write(f"{path}\n")
    return 0
