# SPDX-License-Identifier: Apache-2.0
"""Endpoints that describe containers and the space they use.

    GET  /passthrough/engine/inspect/<id>     the engine's JSON
    GET  /passthrough/engine/details/<id>     the part of it without secrets, for viewers
    GET  /passthrough/engine/top/<id>         processes
    GET  /passthrough/engine/usage            disk usage
    POST /passthrough/engine/prune?what=…     remove what is not used

`details` is a selection, not a removal of known secrets: a member that a later version of the
engine adds is not shown.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from rdd.api.types import Object
from rdd.controllers.containers.engine.endpoints import (
    EndpointError,
    EngineHandle,
    check_method,
    container_id,
    endpoint,
    engine_failures,
    flag,
)
from rdd.engine import Docker, EngineConflict, EngineNotFound
from rdd.engine.files import HELPER
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.runtime.passthrough import Handler

_SHOWN: Mapping[str, Any] = {
    "Id": None, "Name": None, "Created": None, "Image": None, "Platform": None, "Driver": None,
    "RestartCount": None,
    "State": (
        "Status", "Running", "Paused", "Restarting", "OOMKilled", "Dead", "Pid", "ExitCode",
        "StartedAt", "FinishedAt",
    ),
    "Config": ("Hostname", "User", "Image", "WorkingDir", "Tty", "ExposedPorts", "StopSignal"),
    "HostConfig": (
        "Memory", "NanoCpus", "CpuShares", "PidsLimit", "RestartPolicy", "NetworkMode",
        "Privileged", "ReadonlyRootfs", "AutoRemove", "CapAdd", "CapDrop", "PortBindings",
    ),
    "NetworkSettings": ("Ports", "IPAddress", "Gateway", "MacAddress"),
}  # fmt: skip
_MOUNT = ("Type", "Name", "Source", "Destination", "Mode", "RW")
_NETWORK = ("NetworkID", "IPAddress", "IPPrefixLen", "Gateway", "MacAddress", "GlobalIPv6Address")
_NAMED_VOLUMES_STAY = (1, 42)
"""The API version from which on pruning volumes spares those with a name."""
_PRUNED = {
    "containers": ("/containers/prune", "ContainersDeleted"),
    "images": ("/images/prune", "ImagesDeleted"),
    "volumes": ("/volumes/prune", "VolumesDeleted"),
    "networks": ("/networks/prune", "NetworksDeleted"),
    "build-cache": ("/build/prune", "CachesDeleted"),
}


class InspectionEndpoints:
    """Endpoints with one JSON value each."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self.handlers: dict[str, Handler] = {
            "inspect": self.inspect,
            "details": self.details,
            "top": self.top,
            "usage": self.usage,
            "prune": self.prune,
        }

    @endpoint
    async def inspect(self, exchange: Exchange, rest: str) -> Response | None:
        """Send the engine's description of a container."""
        check_method(exchange, "GET")
        id_ = container_id(rest)
        with engine_failures():
            return _json(await self._handle.get().inspect_container(id_))

    @endpoint
    async def details(self, exchange: Exchange, rest: str) -> Response | None:
        """Send the description without members that may contain secrets."""
        check_method(exchange, "GET")
        id_ = container_id(rest)
        with engine_failures():
            return _json(without_secrets(await self._handle.get().inspect_container(id_)))

    @endpoint
    async def top(self, exchange: Exchange, rest: str) -> Response | None:
        """Send the processes of a container."""
        check_method(exchange, "GET")
        id_ = container_id(rest)
        with engine_failures():
            found = await self._handle.get().call("GET", f"/containers/{id_}/top")
        rows = {"titles": found.get("Titles") or [], "processes": found.get("Processes") or []}
        return _json(rows)

    @endpoint
    async def usage(self, exchange: Exchange, rest: str) -> Response | None:
        """Send how much disk space the engine uses, and how much could be freed."""
        check_method(exchange, "GET")
        with engine_failures():
            return _json(await disk_usage(self._handle.get()))

    @endpoint
    async def prune(self, exchange: Exchange, rest: str) -> Response | None:
        """Remove what is not used."""
        check_method(exchange, "POST")
        what = exchange.first("what")
        if what not in _PRUNED:
            raise EndpointError(
                400, f"invalid value {what!r} for what: one of {', '.join(_PRUNED)} is required"
            )
        everything = flag(exchange, "all", False)
        docker = self._handle.get()
        path, member = _PRUNED[what]
        query = {}
        with engine_failures():
            if what == "images":
                query["filters"] = json.dumps({"dangling": ["false" if everything else "true"]})
            elif what == "build-cache" and everything:
                query["all"] = "true"
            elif what == "volumes" and await docker.version() >= _NAMED_VOLUMES_STAY:
                query["filters"] = json.dumps({"all": ["true"]} if everything else {})
            elif what == "volumes" and not everything:
                return _json({"deleted": await _prune_anonymous(docker), "reclaimed": 0})
            found = await docker.call("POST", path, query)
        deleted = [_deleted(each) for each in found.get(member) or ()]
        return _json({"deleted": deleted, "reclaimed": found.get("SpaceReclaimed") or 0})


async def _prune_anonymous(docker: Docker) -> list[str]:
    """Remove unused volumes without a name of their own, as later engines do by themselves."""
    filters = json.dumps({"dangling": ["true"]})
    found = await docker.call("GET", "/volumes", {"filters": filters})
    names = [str(each.get("Name")) for each in found.get("Volumes") or ()]
    anonymous = [name for name in names if re.fullmatch("[0-9a-f]{64}", name)]
    for name in anonymous:
        with contextlib.suppress(EngineConflict, EngineNotFound):
            await docker.remove_volume(name)
    return anonymous


def _json(value: object) -> Response:
    return Response(200, orjson.dumps(value), headers=[("Cache-Control", "no-store")])


def _deleted(found: Any) -> str:
    if isinstance(found, dict):  # of an image: `Untagged` or `Deleted`
        return str(found.get("Untagged") or found.get("Deleted") or "")
    return str(found)


def without_secrets(found: Object) -> Object:
    """Return the members of a description that contain no secrets; of the environment the names."""
    shown: Object = {}
    for name, members in _SHOWN.items():
        value = found.get(name)
        if members is not None:
            value = _members(value, members)
        if value is not None:
            shown[name] = value
    config = found.get("Config") or {}
    names = sorted(str(text).partition("=")[0] for text in config.get("Env") or ())
    shown.setdefault("Config", {})["Env"] = names
    health = (found.get("State") or {}).get("Health")
    if health:
        shown["State"]["Health"] = _members(health, ("Status", "FailingStreak"))
    shown["Mounts"] = [_members(mount, _MOUNT) for mount in found.get("Mounts") or ()]
    networks = (found.get("NetworkSettings") or {}).get("Networks") or {}
    shown.setdefault("NetworkSettings", {})["Networks"] = {
        name: _members(network, _NETWORK) for name, network in networks.items()
    }
    return shown


def _members(value: Any, names: Iterable[str]) -> Object:
    given = value if isinstance(value, dict) else {}
    return {name: given[name] for name in names if name in given}


async def disk_usage(docker: Docker) -> Object:
    """Return the space of images, containers, volumes and the build cache."""
    found = await docker.call("GET", "/system/df")
    images = [each for each in found.get("Images") or () if not _is_helper(each)]
    containers = [each for each in found.get("Containers") or () if not _is_helper(each)]
    users: dict[str, list[str]] = {}
    for each in containers:
        name = str((each.get("Names") or [each.get("Id", "")])[0]).removeprefix("/")
        for mount in each.get("Mounts") or ():
            if mount.get("Name"):
                users.setdefault(str(mount["Name"]), []).append(name)
    volumes = [
        {
            "name": str(each.get("Name")),
            "size": max((each.get("UsageData") or {}).get("Size", 0), 0),
            "usedBy": sorted(users.get(str(each.get("Name")), ())),
        }
        for each in found.get("Volumes") or ()
    ]
    cache = found.get("BuildCache") or []
    return {
        "images": {
            "count": len(images),
            "size": found.get("LayersSize") or 0,
            "reclaimable": sum(
                max(each.get("Size", 0) - max(each.get("SharedSize", 0), 0), 0)
                for each in images
                if not each.get("Containers")
            ),
        },
        "containers": {
            "count": len(containers),
            "size": sum(each.get("SizeRw") or 0 for each in containers),
            "reclaimable": sum(
                each.get("SizeRw") or 0 for each in containers if each.get("State") != "running"
            ),
        },
        "volumes": {
            "count": len(volumes),
            "size": sum(each["size"] for each in volumes),
            "reclaimable": sum(each["size"] for each in volumes if not each["usedBy"]),
            "items": volumes,
        },
        "buildCache": {
            "count": len(cache),
            "size": sum(each.get("Size") or 0 for each in cache),
            "reclaimable": sum(each.get("Size") or 0 for each in cache if not each.get("InUse")),
        },
    }


def _is_helper(found: Any) -> bool:
    return HELPER in (found.get("Labels") or {})
