# SPDX-License-Identifier: Apache-2.0
"""Conversion of containerd's containers and images to the status of mirrors.

containerd stores less than Docker: a container has no name and no ports, but
nerdctl and the kubelet write both into labels. A container without a task has
not been started, or its task was removed. Images are names; their platform is in
documents of the content store.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import orjson

from rdd.api import timestamps
from rdd.api.types import Object
from rdd.base.sizes import decimal
from rdd.controllers.containers.engine.items import Mirror, port_summary
from rdd.engine import containerd
from rdd.kinds.container import Container
from rdd.kinds.image import Image

_STATES: Final = {
    "created": "created",
    "running": "running",
    "stopped": "exited",
    "paused": "paused",
    "pausing": "pausing",
}
_is_unique = re.compile(r"[0-9a-f]{64}").fullmatch
_BY_ID = "sha256:"


def container_name(namespace: str, id_: str) -> str:
    """Return the name of the mirror: the ID if it is a full one, since short IDs are not unique."""
    if _is_unique(id_):
        return id_
    return "ctr-" + sha256(f"{namespace}\0{id_}".encode()).hexdigest()


def container_mirror(
    namespace: str, found: containerd.ContainerdContainer, task: containerd.ContainerdTask | None
) -> Mirror:
    """Return the mirror of a container."""
    labels = found.labels
    process = found.spec.get("process")
    given = process.get("args") if isinstance(process, dict) else None
    args = [str(arg) for arg in given] if isinstance(given, list) else []
    status: Object = {
        "name": _name(labels) or found.id,
        "namespace": namespace,
        "path": args[0] if args else "",
        "image": found.image,
        "status": _STATES.get(task.state, "unknown") if task is not None else "created",
    }
    if found.image:
        status["imageName"] = found.image
    if args[1:]:
        status["args"] = args[1:]
    if labels:
        status["labels"] = dict(labels)
    if ports := _ports(labels):
        status["ports"] = ports
        status["portSummary"] = port_summary(ports)
    if created := _time(found.created_s):
        status["createdAt"] = created
    if task is not None:
        if task.state == "stopped":
            status["exitCode"] = task.exit_code
            if ended := _time(task.exited_s):
                status["finishedAt"] = ended
        elif task.pid:
            status["pid"] = task.pid
    oom_killed = task.oom_killed if task is not None else None
    return Mirror(Container, container_name(namespace, found.id), status, oom_killed)


def image_mirror(
    namespace: str, found: containerd.ContainerdImage, document: "ImageDocuments"
) -> Mirror:
    """Return the mirror of an image name."""
    status: Object = {
        "namespace": namespace,
        "id": found.digest,
        "architecture": document.architecture,
        "os": document.os,
        "size": document.size or max(found.size, 0),
    }
    status["readableSize"] = decimal(status["size"])
    # The kubelet adds the digest of every image as a second name.
    if not found.name.startswith(_BY_ID):
        status["repoTag"] = found.name
    if created := document.created or _time(found.created_s):
        status["createdAt"] = created
    if document.labels:
        status["labels"] = dict(document.labels)
    name = sha256(f"{namespace}\0{found.digest}\0{found.name}".encode()).hexdigest()
    return Mirror(Image, f"img-{name}", status)


class ImageDocuments:
    """Manifest and configuration of an image."""

    def __init__(self, manifest: Object, config: Object) -> None:
        self.architecture = _text(config.get("architecture"))
        self.os = _text(config.get("os"))
        self.created = _rfc3339(config.get("created"))
        inner = config.get("config")
        labels = inner.get("Labels") if isinstance(inner, dict) else None
        self.labels: Mapping[str, str] = (
            {_text(key): _text(value) for key, value in labels.items()}
            if isinstance(labels, dict)
            else {}
        )
        layers = manifest.get("layers")
        self.size = sum(
            part.get("size") or 0
            for part in (manifest.get("config"), *(layers if isinstance(layers, list) else ()))
            if isinstance(part, dict) and isinstance(part.get("size"), int)
        )


def digest_in(manifest: Object, member: str) -> str:
    """Return the digest of a document that a manifest refers to."""
    found = manifest.get(member)
    return _text(found.get("digest")) if isinstance(found, dict) else ""


def select_manifest(index: Object, architecture: str) -> str:
    """Return the digest of the manifest for this machine; empty if the document is no index."""
    manifests = index.get("manifests")
    if not isinstance(manifests, list):
        return ""
    found = [entry for entry in manifests if isinstance(entry, dict)]
    for entry in found:
        platform = entry.get("platform")
        if (
            isinstance(platform, dict)
            and platform.get("os") == "linux"
            and platform.get("architecture") == architecture
        ):
            return _text(entry.get("digest"))
    return _text(found[0].get("digest")) if found else ""


def _name(labels: Mapping[str, str]) -> str:
    if name := labels.get("nerdctl/name"):
        return name
    parts = [labels.get(f"io.kubernetes.{part}.name", "") for part in ("pod", "container")]
    return "/".join(part for part in parts if part)


def _ports(labels: Mapping[str, str]) -> list[Object]:
    try:
        given = orjson.loads(labels.get("nerdctl/ports") or "[]")
    except ValueError:
        return []
    ports: dict[str, list[tuple[str, str]]] = {}
    for entry in given if isinstance(given, list) else ():
        if isinstance(entry, dict) and "ContainerPort" in entry:
            name = f"{entry['ContainerPort']}/{entry.get('Protocol') or 'tcp'}"
            binding = (_text(entry.get("HostIP")), _text(entry.get("HostPort")))
            ports.setdefault(name, []).append(binding)
    return [
        {
            "name": name,
            "bindings": [{"hostIP": ip, "hostPort": port} for ip, port in sorted(bindings)],
        }
        for name, bindings in sorted(ports.items())
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _time(second: int) -> str:
    """Return a timestamp; empty for Go's zero time."""
    return timestamps.text(second) if second > 0 else ""


def _rfc3339(value: Any) -> str:
    try:
        second, _ = timestamps.parse(_text(value))
    except ValueError:
        return ""
    return _time(second)
