# SPDX-License-Identifier: Apache-2.0
"""The checks: each looks at one thing from outside, as the user's tools would.

A check is a function from facts to a finding. It may block (files, sockets), so the
controller runs it in a thread; it never changes anything and never raises for what
it finds. `rdd doctor` runs the same functions, also when no daemon does.
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
from rdd.controllers.app.diagnostics.findings import Facts, Finding, ill, not_applicable, well
from rdd.host import docker_contexts
from rdd.host.errors import HostError
from rdd.host.files import read_text

_TIMEOUT_S = 3.0
_GIB = 1 << 30
_DAY_S = 86_400
_LOG_TAIL_BYTES = 256 * 1024

# Reasons of the condition Settled that do not go away by waiting, and what helps.
_STUCK = {
    "NoDriver": "Run one of the commands above, then: rdd start",
    "NotOurs": "Delete what is in the way, then: rdd start",
    "NotInstalled": "Install it, or: rdd set kubernetes.enabled=false",
    "Refused": "rdd service log",
    "CreateFailed": "rdd service log",
    "StartFailed": f"rdd limavm log {names.APP_VM_NAME}",
    "StopFailed": f"rdd limavm log {names.APP_VM_NAME}",
    "MergeFailed": "Correct the file; kubectl needs it too.",
}

Check = Callable[[Facts], Finding]


def app(facts: Facts) -> Finding:
    """Whether the App has become, or is becoming, what it should be."""
    settled = facts.condition(names.SETTLED)
    if not settled:
        return not_applicable("There is no App.")
    reason = settled["reason"]
    if reason not in _STUCK:
        return well(reason, settled["message"])
    first, *evidence = settled["message"].splitlines() or [reason]
    return ill(reason, first, *(evidence or [first]), next_step=_STUCK[reason])


def docker_context(facts: Facts) -> Finding:
    """Whether docker finds the engine by its context."""
    if facts.engine != "moby" or not facts.holds(names.ENGINE_READY):
        return not_applicable("There is no Docker engine to have a context for.")
    name, endpoint = facts.instance.name, facts.instance.docker_endpoint
    directory = facts.docker_directory
    path = docker_contexts.metadata_path(directory, name)
    try:
        current = docker_contexts.current(directory) or docker_contexts.DEFAULT
        metadata = _json(path)
    except HostError as error:
        return ill(
            "ConfigUnreadable",
            "The configuration of docker cannot be read.",
            str(error),
            next_step=f"Correct or remove the file; docker needs it too: {directory}",
        )
    host = (((metadata or {}).get("Endpoints") or {}).get("docker") or {}).get("Host", "")
    if host != endpoint:
        return ill(
            "ContextMissing",
            f"docker has no context {name} that leads to the engine.",
            f"{path}: {f'leads to {host}' if host else 'missing'}, expected {endpoint}",
            next_step=f"docker context rm --force {name}; rdd restart",
        )
    if facts.environment.get("DOCKER_HOST"):
        return well(
            "Overridden",
            f"DOCKER_HOST is set, so docker uses no context; `docker --context {name}` does.",
            f"DOCKER_HOST={facts.environment['DOCKER_HOST']}",
        )
    if current != name:
        return well(
            "NotCurrent",
            f"docker uses its context {current}; rdd is reached with `docker --context {name}`.",
        )
    return well("Current", f"docker uses the context {name}.")


def engine(facts: Facts) -> Finding:
    """Whether the Docker API answers on its socket."""
    if facts.engine != "moby" or not facts.holds(names.RUNNING):
        return not_applicable("The Docker engine does not run.")
    path = facts.instance.docker_socket
    try:
        status, reason = _ping(path)
    except OSError as error:
        return ill(
            "EngineUnreachable",
            "The container engine does not answer.",
            f"{path}: {error.strerror or error}",
            next_step=f"rdd restart; if it stays so: rdd limavm log {names.APP_VM_NAME}",
        )
    if status != 200:
        return ill(
            "EngineUnhealthy",
            "The container engine answers with an error.",
            f"{path}: {status} {reason}",
            next_step=f"rdd limavm log {names.APP_VM_NAME}",
        )
    return well("Answering", "The container engine answers.", str(path))


def kube_context(facts: Facts) -> Finding:
    """Whether kubectl finds the cluster by its context."""
    if not facts.holds(names.KUBERNETES_READY):
        return not_applicable("There is no Kubernetes cluster to have a context for.")
    from rdd.host import kube_contexts

    name = facts.instance.name
    files = kube_contexts.locations(facts.environment, facts.home)
    try:
        entry = kube_contexts.lookup(files, name)
    except HostError as error:
        return ill(
            "ConfigUnreadable",
            "A kubeconfig cannot be read.",
            str(error),
            next_step="Correct the file; kubectl needs it too.",
        )
    if entry is None:
        return ill(
            "ContextMissing",
            f"kubectl has no context {name}.",
            f"looked in {', '.join(map(str, files))}",
            next_step=f"rdd restart, or use --kubeconfig {facts.instance.kube_config}",
        )
    return well("Published", f"kubectl reaches the cluster with `kubectl --context {name}`.")


def ports(facts: Facts) -> Finding:
    """Whether all published ports could be forwarded."""
    if not facts.holds(names.RUNNING):
        return not_applicable("Nothing is forwarded while the virtual machine does not run.")
    failed: dict[str, str] = {}
    for status in _statuses(facts.instance.lima_home / names.APP_VM_NAME / "ha.stdout.log"):
        forward = status.get("portForward")
        if isinstance(forward, dict):
            address = str(forward.get("hostAddr") or forward.get("guestAddr") or "")
            failed.pop(address, None)
            if forward.get("type") == "failed":
                failed[address] = str(forward.get("error") or "not forwarded")
    if not failed:
        return well("Forwarded", "Every published port is forwarded.")
    first = min(failed)
    return ill(
        "NotForwarded",
        f"{len(failed)} published port(s) cannot be reached on this machine.",
        *(f"{address}: {why}" for address, why in sorted(failed.items())),
        next_step="See who has the port, and stop one of the two: "
        f"ss -ltnp 'sport = :{first.rpartition(':')[2]}'",
    )


def disk(facts: Facts) -> Finding:
    """Whether there is room for images, containers and the store."""
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
        return well("Enough", "There is enough room on the disk.", evidence)
    return ill(
        "DiskFull" if free < _GIB else "DiskLow",
        "The disk is full." if free < _GIB else "The disk is almost full.",
        evidence,
        next_step="Remove what is no longer used: "
        f"docker --context {facts.instance.name} system prune --all",
    )


def certificates(facts: Facts) -> Finding:
    """Whether the API's certificate is the one the kubeconfig trusts, and for how long."""
    from rdd.client.kubeconfig import KubeconfigError, load

    try:
        login = load(facts.instance.config)
    except KubeconfigError as error:
        return not_applicable(f"The control plane does not run: {error}")
    address = urlsplit(login.server)
    context = ssl.create_default_context(cadata=login.authority)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    host, port = address.hostname or "127.0.0.1", address.port or 443
    try:
        with (
            socket.create_connection((host, port), _TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            until = str((secure.getpeercert() or {}).get("notAfter", ""))
    except ssl.SSLCertVerificationError as error:
        return ill(
            "NotTrusted",
            "The API's certificate is not the one its clients trust.",
            f"{login.server}: {error.verify_message}",
            next_step="rdd service stop; rdd service start",
        )
    except OSError as error:
        return not_applicable(f"The control plane does not answer: {error.strerror or error}")
    days = int((ssl.cert_time_to_seconds(until) - time.time()) / _DAY_S)
    if days < 7:  # it is renewed 30 days before
        return ill(
            "ExpiresSoon",
            f"The API's certificate expires in {days} days and was not renewed.",
            f"{login.server}: valid until {until}",
            next_step="rdd service stop; rdd service start",
        )
    return well("Valid", f"The API's certificate is valid for {days} days.", until)


def processes(facts: Facts) -> Finding:
    """Whether something runs that should not, or half of something."""
    from rdd.vm.instance_dir import InstanceStatus, LimaHome

    home = LimaHome(facts.instance.lima_home)
    broken = []
    for name in home.names():
        directory = home.open(name)
        if directory is not None and directory.status() is InstanceStatus.BROKEN:
            broken.append(f"{directory.path}: one of host agent and driver runs, the other is gone")
    if broken:
        return ill(
            "HalfRunning",
            f"{len(broken)} virtual machine(s) run only in part.",
            *broken,
            next_step="rdd service start takes over what still runs; "
            "rdd limavm restart NAME begins anew",
        )
    return well("Complete", "Nothing runs that should not.")


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
"""Every check by the name of its Diagnostic."""


def run(name: str, facts: Facts) -> Finding:
    """The finding of a check; one that fails itself has not found anything."""
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
    """What a host agent last told; the first line may be cut, the last not yet complete."""
    from rdd.vm.lifecycle.observation import parse_event

    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    return [status for line in lines if (status := parse_event(line)) is not None]
