# SPDX-License-Identifier: Apache-2.0
"""Conversion of the Docker engine's JSON to the status of mirrors, without side effects.

Members vary with versions and plugins. A member that is missing or has the wrong
type is left out; only members that the schema of a kind requires get a value: an
empty text, zero, the state `unknown`, and for a volume without a date the epoch.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.base.sizes import decimal
from rdd.controllers.containers.container_conditions import STATES, UNKNOWN
from rdd.controllers.containers.engine.items import Mirror, image_name, port_summary, volume_name
from rdd.kinds.container import Container
from rdd.kinds.image import Image
from rdd.kinds.network import Network
from rdd.kinds.volume import Volume

log = logging.getLogger("rdd.engine")

NAMESPACE: Final = "moby"
"""The engine has no namespaces; a slash in a name belongs to the name."""

HEALTH: Final = ("starting", "healthy", "unhealthy")
EPOCH: Final = "1970-01-01T00:00:00Z"
_NO_TAG = "<none>:<none>"
_INT32 = 1 << 31
_INT64_MAX = (1 << 63) - 1

_reported_states: set[str] = set()


def container_mirror(found: Object) -> Mirror:
    """Return the mirror of a container from its inspection."""
    state = _dict(found.get("State"))
    config = _dict(found.get("Config"))
    status: Object = {
        "name": _text(found.get("Name")).removeprefix("/"),
        "namespace": NAMESPACE,
        "path": _text(found.get("Path")),
        "image": _text(found.get("Image")),
        "status": container_state(state.get("Status")),
    }
    _put(status, "imageName", _text(config.get("Image")))
    health = _dict(state.get("Health")).get("Status")
    if health in HEALTH:
        status["health"] = health
    args = found.get("Args")
    if isinstance(args, list) and args:
        status["args"] = [_text(arg) for arg in args]
    _put(status, "labels", _labels(config.get("Labels")))
    _put(status, "ports", _ports(_dict(found.get("NetworkSettings")).get("Ports"), config))
    _put(status, "portSummary", port_summary(status.get("ports") or ()))
    _put(status, "volumes", _volumes(found.get("Mounts")))
    networks = _dict(_dict(found.get("NetworkSettings")).get("Networks"))
    _put(status, "networks", sorted(map(_text, networks)))
    _put(status, "pid", _int32(state.get("Pid")))
    finished = _time(state.get("FinishedAt"))
    if finished and not state.get("Running"):
        status["exitCode"] = _int32(state.get("ExitCode"))
    _put(status, "error", _text(state.get("Error")))
    _put(status, "createdAt", _time(found.get("Created")))
    _put(status, "startedAt", _time(state.get("StartedAt")))
    _put(status, "finishedAt", finished)
    return Mirror(Container, found["Id"], status, bool(state.get("OOMKilled")))


def container_state(value: Any) -> str:
    """Return a known state; log any other once and return `unknown`."""
    if isinstance(value, str) and value in STATES:
        return value
    shown = repr(value)[:80]
    if shown not in _reported_states and len(_reported_states) < 100:
        _reported_states.add(shown)
        log.warning("the engine reports an unknown container state: %s", shown)
    return UNKNOWN


def image_mirrors(found: Object) -> list[Mirror]:
    """Return the mirrors of an image: one per tag, or a single one without tags."""
    id_ = _text(found.get("Id"))
    size = found.get("Size")
    common: Object = {
        "namespace": NAMESPACE,
        "id": id_,
        "architecture": _text(found.get("Architecture")),
        "os": _text(found.get("Os")),
        "size": min(size, _INT64_MAX) if isinstance(size, int) and size > 0 else 0,
    }
    common["readableSize"] = decimal(common["size"])
    digests = found.get("RepoDigests")
    if isinstance(digests, list):
        _put(common, "repoDigests", sorted(set(map(_text, digests))))
    _put(common, "createdAt", _time(found.get("Created")))
    _put(common, "labels", _labels(_dict(found.get("Config")).get("Labels")))
    return [
        Mirror(Image, image_name(id_, tag), {**common, "repoTag": tag} if tag else common)
        for tag in tags(found) or [""]
    ]


def tags(found: Object) -> list[str]:
    given = found.get("RepoTags")
    if not isinstance(given, list):
        return []
    return sorted({_text(tag) for tag in given} - {_NO_TAG, ""})


def volume_mirror(found: Object) -> Mirror:
    """Return the mirror of a volume."""
    name = _text(found.get("Name"))
    status: Object = {
        "name": name,
        "namespace": NAMESPACE,
        "driver": _text(found.get("Driver")),
        "mountpoint": _text(found.get("Mountpoint")),
        "scope": _text(found.get("Scope")),
        "createdAt": _time(found.get("CreatedAt")) or EPOCH,
    }
    _put(status, "labels", _labels(found.get("Labels")))
    _put(status, "options", _labels(found.get("Options")))
    return Mirror(Volume, volume_name(name), status)


def network_mirror(found: Object) -> Mirror:
    """Return the mirror of a network."""
    status: Object = {
        "name": _text(found.get("Name")),
        "namespace": NAMESPACE,
        "driver": _text(found.get("Driver")),
        "scope": _text(found.get("Scope")),
    }
    _put(status, "internal", bool(found.get("Internal")))
    _put(status, "ipv6", bool(found.get("EnableIPv6")))
    ranges = _dict(found.get("IPAM")).get("Config")
    given = [_dict(each) for each in ranges] if isinstance(ranges, list) else []
    _put(status, "subnets", [_text(each["Subnet"]) for each in given if each.get("Subnet")])
    _put(status, "gateways", [_text(each["Gateway"]) for each in given if each.get("Gateway")])
    _put(status, "labels", _labels(found.get("Labels")))
    _put(status, "createdAt", _time(found.get("Created")))
    return Mirror(Network, _text(found.get("Id")), status)


def _ports(published: Any, config: Object) -> list[Object]:
    """Return ports by name; those of the configuration while the container is stopped."""
    ports = _dict(published) or dict.fromkeys(_dict(config.get("ExposedPorts")))
    found = []
    for name, bindings in sorted(ports.items()):
        port: Object = {"name": name}
        pairs = sorted(
            (_text(binding.get("HostIp")), _text(binding.get("HostPort")))
            for binding in (bindings if isinstance(bindings, list) else ())
            if isinstance(binding, dict)
        )
        if pairs:
            port["bindings"] = [{"hostIP": ip, "hostPort": number} for ip, number in pairs]
        found.append(port)
    return found


def _volumes(mounts: Any) -> list[str]:
    given = (_dict(mount) for mount in (mounts if isinstance(mounts, list) else ()))
    found = {_text(mount.get("Name")) for mount in given if mount.get("Type") == "volume"}
    return sorted(found - {""})


def _put(status: Object, name: str, value: Any) -> None:
    if value:
        status[name] = value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _labels(value: Any) -> Mapping[str, str]:
    return {_text(name): _text(label) for name, label in _dict(value).items()}


def _int32(value: Any) -> int:
    """Wrap a value to 32 bits: exit codes of some systems use all of them."""
    if not isinstance(value, int):
        return 0
    return (value + _INT32) % (2 * _INT32) - _INT32


def _time(value: Any) -> str:
    """Return a timestamp in seconds; empty for Go's zero time and invalid values."""
    if not isinstance(value, str) or not value or value.startswith("0001-01-01"):
        return ""
    try:
        second, _ = timestamps.parse(value)
        return timestamps.text(second)
    except (ValueError, OverflowError):
        return ""
