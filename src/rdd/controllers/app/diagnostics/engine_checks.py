# SPDX-License-Identifier: Apache-2.0
"""Checks of the container engine and of what the user's tools use to reach it.

The engine is asked itself, whatever the App reports: after a crash of the control plane the
engine runs on, and the App is unknown.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from rdd.api import names
from rdd.controllers.app.commands import move_away
from rdd.controllers.app.diagnostics.findings import (
    Facts,
    Finding,
    healthy,
    not_applicable,
    unhealthy,
)
from rdd.host.contexts import docker_contexts
from rdd.host.errors import HostError
from rdd.host.files import read_text
from rdd.vm.idle.docker_paths import socket_for_rdd

_TIMEOUT_S = 3.0
_LARGEST_LIST_BYTES = 64 << 20
# Directories of the guest that containers mount on purpose.
_OF_GUEST = ("/run", "/var/run", "/var/lib/docker", "/proc", "/sys", "/dev", "/lib/modules")


def engine(facts: Facts) -> Finding:
    """Check whether the Docker API responds on its socket."""
    path = socket_for_rdd(facts.instance.docker_socket)
    if facts.is_paused:
        return healthy(
            "Paused", "The machine is paused; the first request of a client wakes it up."
        )
    is_expected = facts.engine == "moby" and facts.is_running
    if not is_expected and not path.exists():
        return not_applicable("The Docker engine is not running.")
    try:
        status, reason = _ping(path)
    except OSError as error:
        if not is_expected:
            return not_applicable("The Docker engine is not running.")
        log = facts.rdd(f"limavm log {names.APP_VM_NAME}")
        return unhealthy(
            "EngineUnreachable",
            "The container engine does not respond.",
            f"{facts.instance.docker_socket}: {error.strerror or error or type(error).__name__}",
            f"its log: {log}",
            next_step=facts.rdd("restart" if facts.is_served else "service start"),
        )
    if status != 200:
        return unhealthy(
            "EngineUnhealthy",
            "The container engine returns an error.",
            f"{facts.instance.docker_socket}: {status} {reason}",
            next_step=facts.rdd(f"limavm log {names.APP_VM_NAME}"),
        )
    return healthy("Answering", "The container engine responds.", str(facts.instance.docker_socket))


def docker_context(facts: Facts) -> Finding:
    """Check whether the Docker context of the engine exists."""
    if facts.engine != "moby" or not facts.is_engine_ready:
        return not_applicable("The Docker engine is not running.")
    name, endpoint = facts.instance.name, facts.instance.docker_endpoint
    directory = facts.docker_directory
    path = docker_contexts.metadata_path(directory, name)
    try:
        current = docker_contexts.current(directory) or docker_contexts.DEFAULT
    except HostError as error:
        return _unreadable(directory / "config.json", error, "The Docker configuration")
    try:
        metadata = _json(path)
    except HostError as error:
        return _unreadable(path, error, "The Docker context")
    host = (((metadata or {}).get("Endpoints") or {}).get("docker") or {}).get("Host", "")
    if host != endpoint:
        verb = "update" if metadata else "create"
        title = f"--description '{docker_contexts.description(name)}'"
        return unhealthy(
            "ContextMissing",
            f"The Docker context {name} is missing or points elsewhere.",
            f"{path}: {f'points to {host}' if host else 'missing'}, expected {endpoint}",
            next_step=f"docker --context {docker_contexts.DEFAULT} context {verb} {name} {title} "
            f"--docker host={endpoint}",
        )
    if facts.environment.get("DOCKER_HOST"):
        return healthy(
            "Overridden",
            f"DOCKER_HOST overrides the context; use `docker --context {name}`.",
            f"DOCKER_HOST={facts.environment['DOCKER_HOST']}",
        )
    if current != name:
        return healthy(
            "NotCurrent",
            f"docker uses the context {current}; use `docker --context {name}` for rdd.",
        )
    return healthy("Current", f"docker uses the context {name}.")


def kube_context(facts: Facts) -> Finding:
    """Check whether the kube context of the cluster exists."""
    ready = facts.condition(names.KUBERNETES_READY)
    if ready.get("status") != "True" and ready.get("reason") != "MergeFailed":
        return not_applicable("The Kubernetes cluster is not running.")
    from rdd.host.contexts import kube_contexts

    name = facts.instance.name
    files = kube_contexts.locations(facts.environment, facts.home)
    entry = None
    for path in files:
        try:
            entry = entry or kube_contexts.lookup([path], name)
        except HostError as error:
            return _unreadable(path, error, "A kubeconfig")
    if entry is None:
        return unhealthy(
            "ContextMissing",
            f"The kube context {name} is missing.",
            f"searched {', '.join(map(str, files))}",
            f"without it: kubectl --kubeconfig {facts.instance.kube_config}",
            next_step=facts.rdd("restart"),
        )
    return healthy("Published", f"Use `kubectl --context {name}` for the cluster.")


def mounts(facts: Facts) -> Finding:
    """Check for containers that mount a folder of this host which the guest does not share."""
    if facts.is_running and facts.machine.driver == "host":
        return not_applicable("The engine runs on this host and sees its folders.")
    if facts.engine != "moby" or not facts.is_running or not facts.machine.driver:
        return not_applicable("No virtual machine with the Docker engine is running.")
    if facts.is_paused:
        return not_applicable("The machine is paused.")
    shared = [mount.mount_point or mount.location for mount in facts.machine.template().mounts]
    try:
        found = list(_unshared(socket_for_rdd(facts.instance.docker_socket), shared))
    except OSError:
        return not_applicable("The container engine does not respond.")
    if not found:
        return healthy("Shared", "All mounted folders are shared with the virtual machine.")
    return unhealthy(
        "NotShared",
        f"{len(found)} mounted folder(s) are those of the virtual machine, not of this host.",
        *(f"container {container}: {source}" for container, source in found),
        f"shared with the virtual machine: {', '.join(shared) or 'nothing'}",
        next_step=f"docker --context {facts.instance.name} inspect {found[0][0]}",
    )


def _unshared(socket: Path, shared: list[str]) -> Iterator[tuple[str, str]]:
    """Return name and source of bind mounts of host folders outside of the shared ones."""
    status, body = _get(socket, "/containers/json")
    containers = json.loads(body) if status == 200 else []
    for container in containers:
        name = str((container.get("Names") or [container.get("Id", "")])[0]).lstrip("/")
        for mount in container.get("Mounts") or ():
            source = str(mount.get("Source") or "")
            if mount.get("Type") != "bind" or _is_below(source, [*shared, *_OF_GUEST]):
                continue
            if Path(source).is_dir():  # otherwise nothing of this host was meant
                yield name, source


def _is_below(path: str, parents: list[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(parent) for parent in parents if parent)


def _unreadable(path: Path, error: HostError, what: str) -> Finding:
    return unhealthy(
        "ConfigUnreadable",
        f"{what} is not readable.",
        str(error),
        next_step=move_away(path),
    )


def _json(path: Path) -> dict[str, Any] | None:
    text = read_text(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise HostError(f'"{path}" is no JSON: {error}') from error
    return found if isinstance(found, dict) else {}


def _ping(path: Path) -> tuple[int, str]:
    """Return status and reason of the response to a ping. Raises OSError."""
    import asyncio

    from rdd.host import unix_http

    response, _body = asyncio.run(unix_http.request(path, "/_ping", timeout_s=_TIMEOUT_S))
    return response.status, response.reason


def _get(path: Path, target: str) -> tuple[int, bytes]:
    """Return status and body of a response of the engine. Raises OSError."""
    import asyncio

    from rdd.host import unix_http

    response, body = asyncio.run(
        unix_http.request(path, target, timeout_s=_TIMEOUT_S, max_bytes=_LARGEST_LIST_BYTES)
    )
    return response.status, body
