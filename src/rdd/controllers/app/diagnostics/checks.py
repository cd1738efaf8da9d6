# SPDX-License-Identifier: Apache-2.0
"""The checks: each verifies one thing from outside, as the user's tools would.

A check is a function from facts to a finding. It may block (files, sockets), so the
controller runs it in a thread. It changes nothing, and a problem that it finds is a finding,
not an exception. `rdd doctor` runs the same functions, also without a daemon.
"""

import json
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from rdd.api import names
from rdd.controllers.app.diagnostics.findings import (
    Facts,
    Finding,
    healthy,
    not_applicable,
    unhealthy,
)
from rdd.host import docker_contexts
from rdd.host.errors import HostError
from rdd.host.files import read_text

_TIMEOUT_S = 3.0
_GIB = 1 << 30
_DAY_S = 86_400
_LOG_TAIL_BYTES = 256 * 1024

# Reasons of the condition Settled that waiting does not resolve, and the fix.
_STUCK = {
    "NoDriver": "Run one of the commands above, then: rdd start",
    "NotOurs": "Delete the object in the way, then: rdd start",
    "NotInstalled": "Install it, or: rdd set kubernetes.enabled=false",
    "Refused": "rdd service log",
    "CreateFailed": "rdd service log",
    "StartFailed": f"rdd limavm log {names.APP_VM_NAME}",
    "StopFailed": f"rdd limavm log {names.APP_VM_NAME}",
    "MergeFailed": "Fix the file; kubectl needs it, too.",
}

Check = Callable[[Facts], Finding]


def app(facts: Facts) -> Finding:
    """Check whether the App is settled or settling."""
    settled = facts.condition(names.SETTLED)
    if not settled:
        return not_applicable("The App does not exist.")
    reason = settled["reason"]
    if reason not in _STUCK:
        return healthy(reason, settled["message"])
    first, *evidence = settled["message"].splitlines() or [reason]
    return unhealthy(reason, first, *(evidence or [first]), next_step=_STUCK[reason])


def docker_context(facts: Facts) -> Finding:
    """Check whether the Docker context of the engine exists."""
    if facts.engine != "moby" or not facts.is_true(names.ENGINE_READY):
        return not_applicable("The Docker engine is not running.")
    name, endpoint = facts.instance.name, facts.instance.docker_endpoint
    directory = facts.docker_directory
    path = docker_contexts.metadata_path(directory, name)
    try:
        current = docker_contexts.current(directory) or docker_contexts.DEFAULT
        metadata = _json(path)
    except HostError as error:
        return unhealthy(
            "ConfigUnreadable",
            "The Docker configuration is not readable.",
            str(error),
            next_step=f"Fix or remove the file; docker needs it, too: {directory}",
        )
    host = (((metadata or {}).get("Endpoints") or {}).get("docker") or {}).get("Host", "")
    if host != endpoint:
        return unhealthy(
            "ContextMissing",
            f"The Docker context {name} is missing or points elsewhere.",
            f"{path}: {f'points to {host}' if host else 'missing'}, expected {endpoint}",
            next_step=f"docker context rm --force {name}; rdd restart",
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


def engine(facts: Facts) -> Finding:
    """Check whether the Docker API responds on its socket."""
    if facts.engine != "moby" or not facts.is_true(names.RUNNING):
        return not_applicable("The Docker engine is not running.")
    path = facts.instance.docker_socket
    try:
        status, reason = _ping(path)
    except OSError as error:
        return unhealthy(
            "EngineUnreachable",
            "The container engine does not respond.",
            f"{path}: {error.strerror or error}",
            next_step=f"rdd restart; if that does not help: rdd limavm log {names.APP_VM_NAME}",
        )
    if status != 200:
        return unhealthy(
            "EngineUnhealthy",
            "The container engine returns an error.",
            f"{path}: {status} {reason}",
            next_step=f"rdd limavm log {names.APP_VM_NAME}",
        )
    return healthy("Answering", "The container engine responds.", str(path))


def kube_context(facts: Facts) -> Finding:
    """Check whether the kube context of the cluster exists."""
    if not facts.is_true(names.KUBERNETES_READY):
        return not_applicable("The Kubernetes cluster is not running.")
    from rdd.host import kube_contexts

    name = facts.instance.name
    files = kube_contexts.locations(facts.environment, facts.home)
    try:
        entry = kube_contexts.lookup(files, name)
    except HostError as error:
        return unhealthy(
            "ConfigUnreadable",
            "A kubeconfig is not readable.",
            str(error),
            next_step="Fix the file; kubectl needs it, too.",
        )
    if entry is None:
        return unhealthy(
            "ContextMissing",
            f"The kube context {name} is missing.",
            f"searched {', '.join(map(str, files))}",
            next_step=f"rdd restart, or use --kubeconfig {facts.instance.kube_config}",
        )
    return healthy("Published", f"Use `kubectl --context {name}` for the cluster.")


def ports(facts: Facts) -> Finding:
    """Check whether all published ports are forwarded."""
    if not facts.is_true(names.RUNNING):
        return not_applicable("The virtual machine is not running.")
    failed: dict[str, str] = {}
    for status in _statuses(facts.instance.lima_home / names.APP_VM_NAME / "ha.stdout.log"):
        forward = status.get("portForward")
        if isinstance(forward, dict):
            address = str(forward.get("hostAddr") or forward.get("guestAddr") or "")
            failed.pop(address, None)
            if forward.get("type") == "failed":
                failed[address] = str(forward.get("error") or "not forwarded")
    if not failed:
        return healthy("Forwarded", "All published ports are forwarded.")
    first = min(failed)
    return unhealthy(
        "NotForwarded",
        f"{len(failed)} published port(s) are not available on this machine.",
        *(f"{address}: {problem}" for address, problem in sorted(failed.items())),
        next_step="Find the program that uses the port and stop it: "
        f"ss -ltnp 'sport = :{first.rpartition(':')[2]}'",
    )


def disk(facts: Facts) -> Finding:
    """Check the free disk space."""
    lowest: tuple[int, Path] | None = None
    for path in (facts.instance.dir, facts.instance.short_dir):
        existing = next(p for p in (path, *path.parents) if p.exists())
        free = shutil.disk_usage(existing).free
        if lowest is None or free < lowest[0]:
            lowest = (free, existing)
    assert lowest is not None
    free, path = lowest
    evidence = f"{path}: {free / _GIB:.1f} GiB free"
    if free >= 5 * _GIB:
        return healthy("Enough", "There is enough free disk space.", evidence)
    return unhealthy(
        "DiskFull" if free < _GIB else "DiskLow",
        "The disk is full." if free < _GIB else "The disk is almost full.",
        evidence,
        next_step=f"Remove unused data: docker --context {facts.instance.name} system prune --all",
    )


def certificates(facts: Facts) -> Finding:
    """Check whether the certificate of the API matches the kubeconfig, and its expiry."""
    from rdd.client.kubeconfig import KubeconfigError, load
    from rdd.client.tls import client_context

    try:
        login = load(facts.instance.config)
        context = client_context(login)
    except KubeconfigError as error:
        return not_applicable(f"The control plane is not running: {error}")
    address = urlsplit(login.server)
    host, port = address.hostname or "127.0.0.1", address.port or 443
    try:
        with (
            socket.create_connection((host, port), _TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            until = str((secure.getpeercert() or {}).get("notAfter", ""))
    except ssl.SSLCertVerificationError as error:
        return unhealthy(
            "NotTrusted",
            "Clients do not trust the certificate of the API.",
            f"{login.server}: {error.verify_message}",
            next_step="rdd service stop; rdd service start",
        )
    except OSError as error:
        return not_applicable(f"The control plane does not respond: {error.strerror or error}")
    days = int((ssl.cert_time_to_seconds(until) - time.time()) / _DAY_S)
    if days < 7:  # it should have been renewed 30 days before
        return unhealthy(
            "ExpiresSoon",
            f"The certificate of the API expires in {days} days and was not renewed.",
            f"{login.server}: valid until {until}",
            next_step="rdd service stop; rdd service start",
        )
    return healthy("Valid", f"The certificate of the API is valid for {days} days.", until)


def processes(facts: Facts) -> Finding:
    """Check for virtual machines of which only some processes run."""
    from rdd.vm.instance_dir import InstanceStatus, LimaHome

    home = LimaHome(facts.instance.lima_home)
    broken = []
    for name in home.names():
        directory = home.open(name)
        if directory is not None and directory.status() is InstanceStatus.BROKEN:
            broken.append(f"{directory.path}: only one of host agent and driver is running")
    if broken:
        return unhealthy(
            "HalfRunning",
            f"{len(broken)} virtual machine(s) are running only in part.",
            *broken,
            next_step="rdd service start adopts running processes; "
            "rdd limavm restart NAME restarts the machine",
        )
    return healthy("Complete", "All virtual machines are running or stopped completely.")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "app": app,
        "certificates": certificates,
        "disk": disk,
        "docker-context": docker_context,
        "engine": engine,
        "kube-context": kube_context,
        "ports": ports,
        "processes": processes,
    }
)
"""All checks by the name of their Diagnostic."""


def run(name: str, facts: Facts) -> Finding:
    """Run a check; an exception becomes a finding with status Unknown."""
    try:
        return CHECKS[name](facts)
    except Exception as error:
        text = str(error) or type(error).__name__
        return Finding("Unknown", "CheckFailed", f"The check itself failed: {text}")


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


def _statuses(path: Path) -> list[dict[str, Any]]:
    """Return the last status events of a host agent; the first and last line may be truncated."""
    from rdd.vm.lifecycle.observation import parse_event

    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    return [status for line in lines if (status := parse_event(line)) is not None]
