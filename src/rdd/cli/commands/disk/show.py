# SPDX-License-Identifier: Apache-2.0
"""`rdd disk`: show where the disk space is, as the engine and as this computer count it.

The two views overlap: what the engine has is in the directory of its machine, or in the disk of a
guest. They differ where the engine does not count (logs of containers) and where a guest's disk
has not given back what was deleted in it.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.existing import require_instance
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call
from rdd.host.usage.disk import Usage, usage

USAGE_PATH = f"{names.PASSTHROUGH_PREFIX}engine/usage?wake=true"
_TIMEOUT_S = 120.0  # the engine measures volumes by walking through them
_DOCKER = "docker"  # the engine's data in the directory of a machine of the type host
_PARTS = (
    # name, paths in the directory of a machine; the first match counts
    ("images and containers", tuple(f"{_DOCKER}/{n}" for n in ("overlay2", "image", "vfs"))),
    ("volumes", (f"{_DOCKER}/volumes",)),
    ("logs of containers", (f"{_DOCKER}/containers",)),
    ("build cache", (f"{_DOCKER}/buildkit",)),
    ("images and containers", ("containerd",)),
    ("kubernetes", ("k3s",)),
    ("disk", ("disk", "diffdisk")),
    ("reserve", ("reserve",)),
    ("base image", ("image", "basedisk", "kernel", "initrd")),
)  # fmt: skip


class HostItem(NamedTuple):
    """The space of some files on this computer."""

    name: str
    machine: str
    """Empty if it belongs to no machine."""
    used: Usage
    path: Path

    def to_data(self) -> Object:
        return {
            "name": self.name,
            "machine": self.machine,
            "bytes": self.used.bytes,
            "isComplete": self.used.is_complete,
            "path": str(self.path),
        }


def run(call: Call) -> int:
    as_json = is_json(call)
    require_instance(call)
    with waiting(call, "measuring the disk space"):
        engine, problem = engine_view(call)
        host = list(_host_view(call))
    systems = file_systems(item.path for item in host)
    if as_json:
        total = Usage(sum(item.used.bytes for item in host), all(i.used.is_complete for i in host))
        found = {
            "engine": {"items": engine, "problem": problem},
            "host": {
                "items": [item.to_data() for item in host],
                "bytes": total.bytes,
                "isComplete": total.is_complete,
            },
            "fileSystems": systems,
        }
        call.out.write(json.dumps(found) + "\n")
        return 0
    if problem:
        call.log.warning(problem)
    else:
        write_table(call, [("ENGINE", "COUNT", "SIZE", "RECLAIMABLE"), *map(_engine_row, engine)])
        call.out.write("\n")
    write_table(call, [("THIS COMPUTER", "SIZE", "PATH"), *map(_host_row, host)])
    for system in systems:
        free, total_bytes = binary(system["freeBytes"]), binary(system["totalBytes"])
        call.out.write(f"\n{free} of {total_bytes} are free at {system['path']}\n")
    return 0


def engine_view(call: Call) -> tuple[list[Object], str]:
    """Return what the engine counts, and why it cannot be asked."""
    try:
        with connected(call, start=False, creates=False, timeout_s=_TIMEOUT_S) as connection:
            found = connection.get(USAGE_PATH)
    except CommandError as error:
        return [], f"the engine cannot be asked: {error}"
    images = found["images"]
    shared = int(images.get("shared") or 0)
    rows = {
        "images": {**images, "size": images["size"] - shared},
        "shared layers": {"count": None, "size": shared, "reclaimable": 0},
        "containers": found["containers"],
        "volumes": found["volumes"],
        "build cache": found["buildCache"],
    }
    return [
        {
            "name": name,
            "count": row["count"],
            "bytes": row["size"],
            "reclaimableBytes": row["reclaimable"],
        }
        for name, row in rows.items()
    ], ""


def _host_view(call: Call) -> Iterator[HostItem]:
    from rdd.cli.commands.preview import machine_paths
    from rdd.cli.commands.trash.entries import trash
    from rdd.host.user_cache import cache_directory

    instance = call.instance
    seen: set[tuple[int, int]] = set()  # machines have links to files of the cache
    for name, path in machine_paths(instance).items():
        yield from _machine_view(name, path, seen)
    yield from _present("snapshots", instance.snapshot_dirs, seen)
    yield from _present("logs", (instance.log_dir,), seen)
    yield from _present("database", (instance.database.parent,), seen)
    yield from _present("backups", (instance.backup_dir,), seen)
    cache = cache_directory(call.environment.variables, instance.home)
    yield from _present("cache", (cache,), seen)
    entries = [e.path for e in trash(call).entries() if e.instance == instance.suffix]
    if entries:
        yield HostItem("trash", "", usage(entries, seen), entries[0].parent)


def _machine_view(machine: str, root: Path, seen: set[tuple[int, int]]) -> Iterator[HostItem]:
    counted: set[Path] = set()
    for name, parts in _PARTS:
        paths = [root / part for part in parts]
        counted |= {root / part.partition("/")[0] for part in parts}
        yield from _present(name, paths, seen, machine)
    rest = [path for path in _children(root) if path not in counted]
    rest += [
        path
        for path in _children(root / _DOCKER)
        if path not in {root / part for _, parts in _PARTS for part in parts}
    ]
    logs = [path for path in rest if path.suffix == ".log"]
    yield from _present("logs", logs, seen, machine, root)
    others = [path for path in rest if path.suffix != ".log"]
    yield from _present("others", others, seen, machine, root)


def _present(
    name: str,
    paths: Iterable[Path],
    seen: set[tuple[int, int]],
    machine: str = "",
    shown: Path | None = None,
) -> Iterator[HostItem]:
    found = [path for path in paths if path.exists()]
    if found:
        yield HostItem(name, machine, usage(found, seen), shown or found[0])


def _children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def file_systems(paths: Iterable[Path]) -> list[Object]:
    """Return size and free space of the file systems of paths, each once."""
    found: dict[int, Object] = {}
    for path in paths:
        try:
            device, space = path.stat().st_dev, shutil.disk_usage(path)
        except OSError:
            continue
        described = {"path": str(path), "totalBytes": space.total, "freeBytes": space.free}
        found.setdefault(device, described)
    return list(found.values())


def _engine_row(row: Object) -> tuple[str, ...]:
    count = "-" if row["count"] is None else str(row["count"])
    return (row["name"], count, binary(row["bytes"]), binary(row["reclaimableBytes"]))


def _host_row(item: HostItem) -> tuple[str, ...]:
    title = f"machine {item.machine}: {item.name}" if item.machine else item.name
    size = ("" if item.used.is_complete else "≥ ") + binary(item.used.bytes)
    return (title, size, str(item.path))
