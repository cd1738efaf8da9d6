# SPDX-License-Identifier: Apache-2.0
"""Remove what is not used: first a plan, then exactly what is in it.

The engine has a request for each kind that finds and removes in one step, so nothing can be shown
before. Here `plan` lists the items, and `remove` removes the items of a list. An item that is
used meanwhile is kept, because the engine refuses its removal; an item that became unused
meanwhile is not in the list. Only the build cache has no removal of single records: the engine
applies the same selection again.

An image is planned if no container uses it but those that are removed before it. Its size is
that of the layers that no other image has; layers that several removed images share are freed,
too, so the sum is a lower bound.
"""

import contextlib
import json
import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rdd.engine import Docker, EngineError, EngineNotFound
from rdd.engine.files import HELPER

Kind = Literal["containers", "images", "volumes", "networks", "build-cache"]
KINDS: tuple[Kind, ...] = ("containers", "images", "volumes", "networks", "build-cache")
"""In the order of removal: what uses something goes before it."""

_ANONYMOUS = re.compile("[0-9a-f]{64}").fullmatch
_OWN_NETWORKS = ("bridge", "host", "none")
_KEPT_CACHE = ("internal", "frontend")  # removed only with everything
_LABEL = re.compile(r"([^=!\s]+)(?:(!?=)(.*))?").fullmatch


class InvalidLabel(ValueError):
    """A label filter is not KEY, KEY=VALUE, KEY!=VALUE or !KEY."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What may be removed."""

    everything: bool = False
    """Also images with a tag, volumes with a name and all of the build cache."""
    until_s: float = 0.0
    """Only what is older than this."""
    labels: Sequence[str] = ()
    """All must match: `KEY`, `KEY=VALUE`, `KEY!=VALUE` or `!KEY`."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is not used."""

    kind: Kind
    id: str
    name: str
    bytes: int = 0

    def to_data(self) -> dict[str, object]:
        return {"kind": self.kind, "id": self.id, "name": self.name, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Kept:
    """An item that could not be removed."""

    item: Item
    reason: str

    def to_data(self) -> dict[str, object]:
        return {**self.item.to_data(), "reason": self.reason}


async def plan(docker: Docker, kinds: Iterable[Kind], selection: Selection) -> list[Item]:
    """Return what is not used, in the order of removal. Raises EngineFailure."""
    wanted = set(kinds)
    matches = _matcher(selection.labels)
    # Without a limit the clock of a guest does not matter.
    before = time.time() - selection.until_s if selection.until_s else math.inf
    found = await docker.call("GET", "/system/df")
    items: list[Item] = []
    for kind in KINDS:
        if kind not in wanted:
            continue
        if kind == "containers":
            items += _containers(found, before, matches)
        elif kind == "images":
            gone = {item.id for item in items}
            items += _images(found, gone, before, matches, everything=selection.everything)
        elif kind == "volumes":
            gone = {item.id for item in items}
            items += _volumes(found, gone, before, matches, everything=selection.everything)
        elif kind == "networks":
            items += await _networks(docker, before, matches)
        elif not selection.labels:  # the build cache has no labels
            items += _build_cache(found, before, everything=selection.everything)
    return items


async def remove(
    docker: Docker, items: Sequence[Item], selection: Selection
) -> tuple[list[Item], list[Kept], int]:
    """Remove items; return the removed ones, those that were kept, and the freed bytes.

    Raises EngineFailure if the engine is lost.
    """
    before = await _total(docker)
    removed: list[Item] = []
    kept: list[Kept] = []
    for item in items:
        if item.kind == "build-cache":
            continue
        try:
            await _remove_item(docker, item)
        except EngineNotFound:
            pass  # another client removed it
        except EngineError as error:
            kept.append(Kept(item, error.message))
            continue
        removed.append(item)
    if cache := [item for item in items if item.kind == "build-cache"]:
        query = {"all": "true"} if selection.everything else {}
        if selection.until_s:
            query["filters"] = json.dumps({"until": [f"{selection.until_s:.0f}s"]})
        done = await docker.call("POST", "/build/prune", query)
        gone = {str(id_) for id_ in (done or {}).get("CachesDeleted") or ()}
        removed += [item for item in cache if item.id in gone]
        kept += [Kept(item, "in use") for item in cache if item.id not in gone]
    return removed, kept, max(0, before - await _total(docker))


async def _remove_item(docker: Docker, item: Item) -> None:
    """Remove an item without force. Raises EngineFailure."""
    if item.kind == "containers":
        await docker.remove_container(item.id)
    elif item.kind == "volumes":
        await docker.remove_volume(item.id)
    elif item.kind == "networks":
        await docker.call("DELETE", f"/networks/{item.id}")
    else:
        described = await docker.inspect_image(item.id)
        # An image with several tags cannot be removed by its ID without force.
        for reference in _references(described) or [item.id]:
            # The last tag of a repository takes its digests along.
            with contextlib.suppress(EngineNotFound):
                await docker.remove_image(reference)


async def _total(docker: Docker) -> int:
    """Return all space that the engine accounts for."""
    found = await docker.call("GET", "/system/df")
    return sum(
        (
            found.get("LayersSize") or 0,
            *(each.get("SizeRw") or 0 for each in found.get("Containers") or ()),
            *(_volume_bytes(each) for each in found.get("Volumes") or ()),
            *(cache_bytes(each) for each in found.get("BuildCache") or ()),
        )
    )


def cache_bytes(record: Any) -> int:
    """Return the space of a record of the build cache; shared ones are layers of images."""
    return 0 if record.get("Shared") else int(record.get("Size") or 0)


def is_helper(found: Any) -> bool:
    """Return whether a container or image belongs to rdd itself."""
    return HELPER in (found.get("Labels") or {})


def _containers(found: Any, before: float, matches: "_Matches") -> Iterable[Item]:
    for each in found.get("Containers") or ():
        if each.get("State") not in ("created", "exited", "dead") or is_helper(each):
            continue
        if float(each.get("Created") or 0) < before and matches(each.get("Labels")):
            name = str((each.get("Names") or [each["Id"]])[0]).removeprefix("/")
            yield Item("containers", str(each["Id"]), name, int(each.get("SizeRw") or 0))


def _images(
    found: Any, gone: set[str], before: float, matches: "_Matches", *, everything: bool
) -> Iterable[Item]:
    used = {
        str(each.get("ImageID"))
        for each in found.get("Containers") or ()
        if str(each.get("Id")) not in gone
    }
    for each in found.get("Images") or ():
        id_ = str(each["Id"])
        tags = [tag for tag in each.get("RepoTags") or () if tag != "<none>:<none>"]
        if id_ in used or is_helper(each) or (tags and not everything):
            continue
        if float(each.get("Created") or 0) < before and matches(each.get("Labels")):
            name = ", ".join(tags) or id_.removeprefix("sha256:")[:12]
            yield Item("images", id_, name, image_bytes(each))


def image_bytes(image: Any) -> int:
    """Return the space of the layers that only this image has."""
    return max(int(image.get("Size") or 0) - max(int(image.get("SharedSize") or 0), 0), 0)


def _volumes(
    found: Any, gone: set[str], before: float, matches: "_Matches", *, everything: bool
) -> Iterable[Item]:
    used = {
        str(mount.get("Name"))
        for each in found.get("Containers") or ()
        if str(each.get("Id")) not in gone
        for mount in each.get("Mounts") or ()
    }
    for each in found.get("Volumes") or ():
        name = str(each.get("Name"))
        if name in used or not (everything or _ANONYMOUS(name)):
            continue
        if _seconds(each.get("CreatedAt")) < before and matches(each.get("Labels")):
            yield Item("volumes", name, name, _volume_bytes(each))


def _volume_bytes(volume: Any) -> int:
    return max(int((volume.get("UsageData") or {}).get("Size") or 0), 0)


async def _networks(docker: Docker, before: float, matches: "_Matches") -> list[Item]:
    containers = await docker.containers()
    used = {
        str(network.get("NetworkID"))
        for each in containers
        for network in ((each.get("NetworkSettings") or {}).get("Networks") or {}).values()
    }
    names = {
        name
        for each in containers
        for name in (each.get("NetworkSettings") or {}).get("Networks") or {}
    }
    return [
        Item("networks", str(each["Id"]), str(each["Name"]))
        for each in await docker.call("GET", "/networks") or ()
        if each["Name"] not in _OWN_NETWORKS
        and each["Id"] not in used
        and each["Name"] not in names  # a container that never ran has no network ID
        and _seconds(each.get("Created")) < before
        and matches(each.get("Labels"))
    ]


def _build_cache(found: Any, before: float, *, everything: bool) -> Iterable[Item]:
    for each in found.get("BuildCache") or ():
        if each.get("InUse"):
            continue
        if not everything and (each.get("Shared") or each.get("Type") in _KEPT_CACHE):
            continue
        if _seconds(each.get("LastUsedAt") or each.get("CreatedAt")) < before:
            name = str(each.get("Description") or each["ID"])
            yield Item("build-cache", str(each["ID"]), name, cache_bytes(each))


def _references(image: Any) -> list[str]:
    return [
        str(name) for name in (*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ()))
    ]


def _seconds(timestamp: Any) -> float:
    """Return a timestamp of the engine in seconds; 0 if it has none."""
    text = re.sub(r"(\.\d{6})\d+", r"\1", str(timestamp or ""))  # nanoseconds
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


_Labels = dict[str, str] | None


class _Matches:
    def __init__(self, rules: Sequence[tuple[str, str, str]]) -> None:
        self._rules = rules

    def __call__(self, labels: _Labels) -> bool:
        present = labels or {}
        return all(_fits(present, *rule) for rule in self._rules)


def _fits(labels: dict[str, str], key: str, operator: str, value: str) -> bool:
    if operator == "!":
        return key not in labels
    if operator == "!=":
        return labels.get(key) != value
    return key in labels and (not operator or labels[key] == value)


def _matcher(filters: Sequence[str]) -> _Matches:
    return _Matches([parse_label(text) for text in filters])


def parse_label(text: str) -> tuple[str, str, str]:
    """Return key, operator and value of a label filter. Raises InvalidLabel."""
    match = _LABEL(text.removeprefix("!"))
    if match is None or (text.startswith("!") and match[2]):
        raise InvalidLabel(f"invalid label filter {text!r}: KEY, KEY=VALUE, KEY!=VALUE or !KEY")
    return match[1], "!" if text.startswith("!") else match[2] or "", match[3] or ""
