# SPDX-License-Identifier: Apache-2.0
"""`rdd cache rm` and `rdd cache gc`: remove files of the cache and releases of Kubernetes."""

from rdd.base.sizes import binary, parse_size
from rdd.cli.commands.cache import releases
from rdd.cli.commands.cache.entries import cache_of, describe, find_entries, find_releases
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.host.errors import HostError

    try:
        return _collect(call) if call.path[-1] == "gc" else _remove(call)
    except HostError as error:
        raise CommandError(str(error)) from error


def _remove(call: Call) -> int:
    from rdd.fetch.eviction import is_in_use

    named = [text for text in call.args if text.startswith(releases.PREFIX)]
    gone = find_releases(call, named)
    entries = find_entries(call, [text for text in call.args if text not in named])
    used = [describe(entry) for entry in entries if is_in_use(entry, without=gone)]
    used += [
        f"{releases.describe(one)} by machine {', '.join(one.users)}" for one in gone if one.users
    ]
    if used:
        raise CommandError(f"in use: {'; '.join(used)}; nothing was removed")
    lines = [*map(releases.describe, gone), *map(describe, entries)]
    confirm(call, ["This removes:", *(f"  {line}" for line in lines)])
    cache = cache_of(call)
    with waiting(call, f"removing {len(lines)} files"):
        for one in gone:
            one.remove()
        for entry in entries:
            cache.remove(entry.digest)
    for line in lines:
        call.log.info(f"removed {line}")
    return 0


def _collect(call: Call) -> int:
    from rdd.fetch.eviction import Evicted, evict

    cache = cache_of(call)
    age_s = call.flags.seconds("max-age")
    size = parse_size(call.flags.text("max-size"))
    if size is None:
        raise CommandError(
            f'--max-size: "{call.flags.text("max-size")}" is not a size such as 20GiB or 500MB'
        )

    found = releases.releases_of(call)

    def evicted(*, dry_run: bool) -> Evicted:
        return evict(cache, max_age_s=age_s, max_bytes=size, directories=found, dry_run=dry_run)

    planned = evicted(dry_run=True)
    lines = [f"  {releases.describe(one)}" for one in found if one in planned.directories]
    lines += [f"  {describe(entry)}" for entry in planned.entries]
    if planned.partial_files:
        lines.append(f"  {planned.partial_files} files of incomplete downloads")
    if not lines:
        call.log.info("nothing to remove")
        return 0
    total = f"{binary(planned.freed_bytes)} in total"
    if call.flags.truth("dry-run"):
        call.out.write("".join(f"{line}\n" for line in ["This would remove:", *lines, total]))
        return 0
    confirm(call, ["This removes:", *lines, total])
    done = evicted(dry_run=False)
    call.log.info(f"freed {binary(done.freed_bytes)}")
    return 0
