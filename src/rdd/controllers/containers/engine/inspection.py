# SPDX-License-Identifier: Apache-2.0
"""Endpoints that describe containers and the space they use.

    GET  /passthrough/engine/inspect/<id>     the engine's JSON
    GET  /passthrough/engine/details/<id>     the part of it without secrets, for viewers
    GET  /passthrough/engine/top/<id>         processes
    GET  /passthrough/engine/usage            disk usage
    GET  /passthrough/engine/prune?what=…     what is not used, and its size
    POST /passthrough/engine/prune?what=…     remove it, or the items of the body

`details` is a selection, not a removal of known secrets: a member that a later version of the
engine adds is not shown.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from rdd.api.types import Object
from rdd.base.gotext import parse_duration
from rdd.controllers.containers.engine import pruning
from rdd.controllers.containers.engine.endpoints import (
    EndpointError,
    EngineHandle,
    check_method,
    container_id,
    endpoint,
    engine_failures,
    flag,
)
from rdd.engine import Docker
from rdd.http.body import BodyTooLarge
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
_LARGEST_PLAN_BYTES = 16 << 20
_ITEM_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}").fullmatch


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
            wakes = flag(exchange, "wake", False)
            docker = self._handle.get() if wakes else self._handle.get_reader()
            return _json(await disk_usage(docker))

    @endpoint
    async def prune(self, exchange: Exchange, rest: str) -> Response | None:
        """List what is not used, or remove it."""
        check_method(exchange, "GET", "POST")
        selection = _selection(exchange)
        given = await _given_items(exchange) if exchange.method == "POST" else None
        kinds = _kinds(exchange, required=given is None)
        docker = self._handle.get()
        with engine_failures():
            if exchange.method != "POST":
                items = await pruning.plan(docker, kinds, selection)
                total = sum(item.bytes for item in items)
                return _json({"items": [item.to_data() for item in items], "bytes": total})
            items = await pruning.plan(docker, kinds, selection) if given is None else given
            removed, kept, freed = await pruning.remove(docker, items, selection)
        return _json(
            {
                "deleted": [item.id for item in removed],
                "kept": [one.to_data() for one in kept],
                "reclaimed": freed,
            }
        )


def _kinds(exchange: Exchange, *, required: bool) -> list[pruning.Kind]:
    """Return the values of `what`. Raises EndpointError."""
    given = exchange.query.get("what") or ([""] if required else [])
    found = [kind for kind in pruning.KINDS if kind in given]
    for what in given:
        if what not in pruning.KINDS:
            raise EndpointError(
                400,
                f"invalid value {what!r} for what: one of {', '.join(pruning.KINDS)} is required",
            )
    return found


def _selection(exchange: Exchange) -> pruning.Selection:
    """Return the filters of a request. Raises EndpointError."""
    labels = exchange.query.get("label") or []
    try:
        for text in labels:
            pruning.parse_label(text)
        until = exchange.first("until")
        until_s = parse_duration(until) if until else 0.0
    except pruning.InvalidLabel as error:
        raise EndpointError(400, str(error)) from error
    except ValueError as error:
        raise EndpointError(400, f"invalid value {until!r} for until: {error}") from error
    if until_s < 0:
        raise EndpointError(400, f"invalid value {until!r} for until: it must not be negative")
    return pruning.Selection(flag(exchange, "all", False), until_s, labels)


async def _given_items(exchange: Exchange) -> list[pruning.Item] | None:
    """Return the items of the body, as a plan has them; None without. Raises EndpointError."""
    try:
        data = await exchange.body.read(limit=_LARGEST_PLAN_BYTES)
    except BodyTooLarge as error:
        raise EndpointError(413, "the list of items is too long") from error
    if not data:
        return None
    try:
        found = orjson.loads(data)["items"]
        items = [pruning.Item(each["kind"], each["id"], str(each.get("name"))) for each in found]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EndpointError(400, 'the body must be {"items": [{"kind", "id"}, …]}') from error
    for item in items:
        if item.kind not in pruning.KINDS or not _is_safe(item.id):
            raise EndpointError(400, f"invalid item {item.kind!r} {item.id!r}")
    return items


def _is_safe(id_: object) -> bool:
    """Return whether an ID can be part of a path."""
    return isinstance(id_, str) and bool(_ITEM_ID(id_))


def _json(value: object) -> Response:
    return Response(200, orjson.dumps(value), headers=[("Cache-Control", "no-store")])


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
    images = [each for each in found.get("Images") or () if not pruning.is_helper(each)]
    containers = [each for each in found.get("Containers") or () if not pruning.is_helper(each)]
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
    layers = found.get("LayersSize") or 0
    return {
        "images": {
            "count": len(images),
            "size": layers,
            "shared": max(layers - sum(map(pruning.image_bytes, images)), 0),
            "reclaimable": sum(
                pruning.image_bytes(each) for each in images if not each.get("Containers")
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
            "size": sum(map(pruning.cache_bytes, cache)),
            "reclaimable": sum(pruning.cache_bytes(one) for one in cache if not one.get("InUse")),
        },
    }
