# SPDX-License-Identifier: Apache-2.0
"""`rdd disk prune`: remove what is not used, after a preview with sizes.

The preview lists single items, and exactly those are removed: what becomes unused while the
question is open stays, and the engine keeps what is used meanwhile. The disk of a guest is
trimmed afterwards, because deleting in the guest alone frees nothing on this computer.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.existing import require_instance
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rdd.client.blocking import Connection

PRUNE_PATH = f"{names.PASSTHROUGH_PREFIX}engine/prune"
OF_ENGINE = ("containers", "images", "build-cache", "volumes")
OF_HOST = ("cache", "trash")
WHAT = (*OF_ENGINE, *OF_HOST)
_USUAL = ("containers", "images", "build-cache")
_LABELLED = ("containers", "images", "volumes")
_SINGULAR = {"containers": "container", "images": "image", "volumes": "volume"}
_TIMEOUT_S = 600.0
_LONGEST_LIST = 20  # of one kind in the preview


class Freed(NamedTuple):
    """The result of a removal."""

    removed: int
    kept: list[Object]
    bytes: int


def run(call: Call) -> int:
    as_json = is_json(call)
    wanted = _wanted(call)
    require_instance(call)
    with waiting(call, "measuring the disk space"):
        items = _plan(call, wanted)
    total = sum(int(item["bytes"]) for item in items)
    dry_run = call.flags.truth("dry-run")
    if not dry_run and items:
        confirm(call, ["This removes:", *_lines(items)])
    done = Freed(0, [], 0)
    if items and not dry_run:
        with waiting(call, f"removing {len(items)} items"):
            done = _remove(call, items)
    if as_json:
        result = {"items": items, "bytes": total, "dryRun": dry_run}
        if not dry_run:
            result |= {"removed": done.removed, "kept": done.kept, "freedBytes": done.bytes}
        call.out.write(json.dumps(result) + "\n")
    elif not items:
        call.log.info("nothing to remove")
    elif dry_run:
        call.out.write("".join(f"{x}\n" for x in ["This would remove:", *_lines(items)]))
    else:
        call.out.write(f"{done.removed} items removed, {binary(done.bytes)} freed\n")
    for one in done.kept:
        call.log.warning(f"{_title(one)} was kept: {one['reason']}")
    return 0


def complete() -> Sequence[str]:
    """Return the candidates for arguments."""
    return WHAT


def _wanted(call: Call) -> list[str]:
    """Return the kinds to remove. Raises CommandError."""
    for given in call.args:
        if given not in WHAT:
            hint = did_you_mean(given, WHAT) or f"valid values: {', '.join(WHAT)}"
            raise CommandError(f"cannot prune {quote(given)}; {hint}")
    if call.flags.seconds("until") < 0:
        raise CommandError("--until must not be negative")
    has_label = bool(call.flags.texts("label"))
    if has_label and (without := [what for what in call.args if what not in _LABELLED]):
        raise CommandError(
            f"--label selects {', '.join(_LABELLED)}; {', '.join(without)} has no labels"
        )
    wanted = list(dict.fromkeys(call.args or _USUAL))
    return [what for what in wanted if what in _LABELLED] if has_label else wanted


def _plan(call: Call, wanted: Sequence[str]) -> list[Object]:
    """Return the items that would go, in the order of their removal."""
    items: list[Object] = []
    of_engine = [what for what in wanted if what in OF_ENGINE]
    if of_engine:
        with _connection(call) as connection:
            query = [("what", what) for what in of_engine] + _filters(call)
            items += connection.get(_target(query))["items"]
    if "cache" in wanted:
        items += _cache_items(call)
    if "trash" in wanted:
        items += _trash_items(call)
    return items


def _connection(call: Call) -> "AbstractContextManager[Connection]":
    return connected(call, start=False, creates=False, timeout_s=_TIMEOUT_S)


def _filters(call: Call) -> list[tuple[str, str]]:
    found = [("label", label) for label in call.flags.texts("label")]
    if call.flags.truth("all"):
        found.append(("all", "true"))
    if seconds := call.flags.seconds("until"):
        found.append(("until", f"{seconds:.0f}s"))
    return found


def _target(query: Iterable[tuple[str, str]]) -> str:
    from urllib.parse import urlencode

    return f"{PRUNE_PATH}?{urlencode(list(query))}"


def _cache_items(call: Call) -> list[Object]:
    import time

    from rdd.cli.commands.cache import releases
    from rdd.cli.commands.cache.entries import cache_of, describe
    from rdd.fetch.eviction import is_in_use

    before = time.time() - call.flags.seconds("until")
    gone = [
        one for one in releases.releases_of(call) if not one.is_in_use and one.used_at <= before
    ]
    found: list[Object] = [
        {
            "kind": "cache",
            "id": releases.title(one),
            "name": releases.describe(one),
            "bytes": one.size_bytes,
        }
        for one in gone
    ]
    return found + [
        {
            "kind": "cache",
            "id": str(entry.digest),
            "name": describe(entry),
            "bytes": entry.size_bytes,
        }
        for entry in cache_of(call).entries()
        if not is_in_use(entry, without=gone) and entry.used_at <= before
    ]


def _trash_items(call: Call) -> list[Object]:
    import time

    from rdd.cli.commands.trash.entries import content, listed
    from rdd.host.usage.disk import usage

    before = time.time() - call.flags.seconds("until")
    return [
        {
            "kind": "trash",
            "id": entry.id,
            "name": f"{entry.id} ({content(entry)})",
            "bytes": usage([entry.path]).bytes,
        }
        for entry in listed(call)
        if entry.deleted_at <= before
    ]


def _remove(call: Call, items: Sequence[Object]) -> Freed:
    from rdd.cli.commands.cache.entries import cache_of, find_releases
    from rdd.cli.commands.cache.releases import PREFIX
    from rdd.cli.commands.trash.entries import find, trash
    from rdd.fetch.digests import Digest
    from rdd.vm.instance_dir import LimaHome
    from rdd.vm.reserve import release_if_short

    removed, kept, freed = 0, list[Object](), 0
    # The engine writes while it removes; the next start allocates the reserve again.
    release_if_short(LimaHome(call.instance.lima_home).directory(names.APP_VM_NAME).path)
    if of_engine := [item for item in items if item["kind"] in OF_ENGINE]:
        with _connection(call) as connection:
            done = connection.request("POST", _target(_filters(call)), body={"items": of_engine})
            kept += done["kept"]
            removed += len(done["deleted"])
            freed += done["reclaimed"]
            _trim(call, connection)
    for item in items:
        if item["kind"] == "cache" and item["id"].startswith(PREFIX):
            for release in find_releases(call, [item["id"]]):
                release.remove()
        elif item["kind"] == "cache":
            cache_of(call).remove(Digest.parse(item["id"]))
        elif item["kind"] == "trash":
            trash(call).remove(find(call, item["id"]))
        else:
            continue
        removed, freed = removed + 1, freed + item["bytes"]
    return Freed(removed, kept, freed)


def _trim(call: Call, connection: "Connection") -> None:
    """Return what was freed in a guest to this computer."""
    from rdd.api.errors import ApiError
    from rdd.cli.commands.limavm.snapshot import disk_request
    from rdd.vm.instance_dir import LimaHome

    machine = names.APP_VM_NAME
    if LimaHome(call.instance.lima_home).directory(machine).driver != "qemu":
        return
    try:
        before = disk_request(connection, "GET", machine)["actualBytes"]
        disk_request(connection, "POST", machine, "trim")
        after = disk_request(connection, "GET", machine)["actualBytes"]
    except ApiError as error:
        call.log.warning(f"the disk of the machine was not trimmed: {error.message}")
        return
    call.log.info(f"the disk of the machine uses {binary(max(0, before - after))} less")


def _lines(items: Sequence[Object]) -> list[str]:
    """Return the preview: the items of each kind, the largest first, and the sum."""
    lines: list[str] = []
    for what in WHAT:
        found = sorted((i for i in items if i["kind"] == what), key=lambda i: -int(i["bytes"]))
        lines += [f"  {_title(item)}, {binary(item['bytes'])}" for item in found[:_LONGEST_LIST]]
        if rest := found[_LONGEST_LIST:]:
            size = binary(sum(int(item["bytes"]) for item in rest))
            lines.append(f"  {len(rest)} more of {what}, {size}")
    return [*lines, f"at least {binary(sum(int(item['bytes']) for item in items))} in total"]


def _title(item: Object) -> str:
    kind = str(item["kind"])
    return f"{_SINGULAR.get(kind, kind)} {item['name']}"
