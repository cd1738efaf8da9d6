# SPDX-License-Identifier: Apache-2.0
"""`rdd cache ls`: list the files of the cache and the releases of Kubernetes."""

import json
import time
from typing import TYPE_CHECKING

from rdd.base.sizes import binary
from rdd.cli.commands.cache.entries import cache_of
from rdd.cli.commands.cache.releases import releases_of, title
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.fetch.cache import Entry
    from rdd.vm.drivers.kubernetes_files import Release

_HEADERS = ("DIGEST", "SIZE", "LAST USED", "IN USE", "SOURCE")


def run(call: Call) -> int:
    as_json = is_json(call)
    entries = list(cache_of(call).entries())
    releases = releases_of(call)
    if as_json:
        found = [*map(_object, entries), *map(_release_object, releases)]
        call.out.write(json.dumps(found) + "\n")
        return 0
    write_table(call, [_HEADERS, *map(_row, entries), *map(_release_row, releases)])
    return 0


def _object(entry: "Entry") -> dict[str, object]:
    return {
        "digest": str(entry.digest),
        "path": str(entry.path),
        "sizeBytes": entry.size_bytes,
        "location": entry.location,
        "lastUsed": _time(entry.used_at),
        "pins": list(entry.pins),
        "isLinked": entry.is_linked,
    }


def _row(entry: "Entry") -> tuple[str, ...]:
    uses = ["checkout"] * bool(entry.pins) + ["machine"] * entry.is_linked
    return (
        entry.digest.hexadecimal[:12],
        binary(entry.size_bytes),
        _time(entry.used_at),
        ", ".join(uses) or "-",
        entry.location or "-",
    )


def _release_object(release: "Release") -> dict[str, object]:
    return {
        "release": release.name,
        "path": str(release.directory),
        "sizeBytes": release.size_bytes,
        "lastUsed": _time(release.used_at),
        "machines": list(release.users),
    }


def _release_row(release: "Release") -> tuple[str, ...]:
    uses = f"machine {', '.join(release.users)}" if release.users else "-"
    return (title(release), binary(release.size_bytes), _time(release.used_at), uses, "-")


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
