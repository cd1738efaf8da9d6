# SPDX-License-Identifier: Apache-2.0
"""What a deletion or restart concerns: containers, volumes, images and disk space.

The API has the containers of a running engine. Those of a stopped machine are counted
in the engine's data root if that is on this host; inside of a guest's disk they are
unknown.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rdd.api import names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.commands.app.object import APP
from rdd.cli.framework.connection import conditions_of, get_or_none
from rdd.cli.framework.types import Call
from rdd.host.usage.disk import Usage, usage
from rdd.instance import Instance
from rdd.vm.instance_dir import LimaHome

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_DATA_ROOT = "docker"  # of the type host, in the directory of the machine


class Contents(NamedTuple):
    """The containers, images and volumes of an engine; None if unknown."""

    containers: int | None = None
    images: int | None = None
    volumes: int | None = None
    running: int | None = None  # containers that run

    def text(self) -> str:
        """Return `2 containers, 1 volume, 3 images`."""
        if self.containers is None or self.volumes is None:
            return "all containers, images and volumes (the machine does not run: not counted)"
        parts = [_count(self.containers, "container"), _count(self.volumes, "volume")]
        if self.images is not None:
            parts.append(_count(self.images, "image"))
        return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def engine_contents(connection: "Connection | None", machine: Path) -> Contents:
    """Return what the engine of the App's machine has, from the API or its data root."""
    if connection is not None:
        app = get_or_none(connection, APP)
        ready = conditions_of(app or {}).get(names.ENGINE_READY, {})
        if ready.get("status") == "True":
            containers = _listed(connection, "containers")
            images = {obj["status"].get("id") for obj in _listed(connection, "images")}
            running = sum(obj["status"].get("status") == "running" for obj in containers)
            volumes = len(_listed(connection, "volumes"))
            return Contents(len(containers), len(images), volumes, running)
    return _on_disk(machine)


def _listed(connection: "Connection", plural: str) -> list[Object]:
    found = get_or_none(connection, f"{names.CONTAINERS_API}/{plural}") or {}
    return [obj for obj in found.get("items") or () if obj.get("status")]


def _on_disk(machine: Path) -> Contents:
    root = machine / _DATA_ROOT
    try:
        containers = sum(path.is_dir() for path in (root / "containers").iterdir())
        volumes = sum(path.is_dir() for path in (root / "volumes").iterdir())
    except OSError:
        return Contents(0, None, 0, 0) if not machine.exists() else Contents()
    return Contents(containers, None, volumes, 0)


def machine_paths(instance: Instance) -> dict[str, Path]:
    """Return the directories of the machines of an instance, by name."""
    home = LimaHome(instance.lima_home)
    return {name: home.directory(name).path for name in home.names()}


def fate(call: Call, paths: Iterable[Path], what: str = "it") -> str:
    """Return whether what goes can be restored, and when its space is free."""
    if call.flags.truth("no-trash"):
        return "Its space is free at once; this cannot be undone."
    from rdd.host.trash import Trash

    trash = Trash(call.instance.trash_dirs)
    if all(trash.can_keep(path) for path in paths):
        return (
            f"The trash keeps {what} for 7 days, or until the disk is almost full: "
            "`rdd trash restore` undoes this; --no-trash frees the space at once."
        )
    return (
        "The trash cannot keep it (the disk is almost full, or it is on another file system); "
        "this cannot be undone."
    )


def space(paths: Iterable[Path]) -> str:
    """Return the disk space that paths occupy, such as `1.2 GiB`."""
    found: Usage = usage(paths)
    return ("" if found.is_complete else "at least ") + binary(found.bytes)
