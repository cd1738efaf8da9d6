# SPDX-License-Identifier: Apache-2.0
"""Checks of this host: ports, disk, certificates and processes.

Forwards are those that the host agent has at this moment: it is asked over its socket. A
foreign host agent (Lima's) has no such request, so its last events count.
"""

import json
import shutil
import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rdd.api import names
from rdd.controllers.app.commands import largest_directories, move_away
from rdd.controllers.app.diagnostics.findings import (
    Facts,
    Finding,
    healthy,
    not_applicable,
    unhealthy,
)
from rdd.host.errors import HostError
from rdd.host.files import read_text

if TYPE_CHECKING:
    from rdd.vm.instance_dir import InstanceDirectory
    from rdd.vm.lifecycle.observation import PortForwardState

_TIMEOUT_S = 3.0
_GIB = 1 << 30
_DAY_S = 86_400
_LOG_TAIL_BYTES = 256 * 1024
_START_S = 120.0  # a host agent may need this long to start its driver


def ports(facts: Facts) -> Finding:
    """Check whether all published ports are forwarded."""
    if not facts.is_running:
        return not_applicable("The virtual machine is not running.")
    failed = [forward for forward in forwards(facts.machine) if forward.type == "failed"]
    if not failed:
        return healthy("Forwarded", "All published ports are forwarded.")
    failed.sort(key=lambda forward: (forward.host_address, forward.protocol))
    first = failed[0]
    return unhealthy(
        "NotForwarded",
        f"{len(failed)} published port(s) are not available on this machine.",
        *(
            f"{forward.host_address or forward.guest_address}: {forward.error or 'not forwarded'}"
            for forward in failed
        ),
        next_step=_who_listens(first),
    )


def _who_listens(forward: "PortForwardState") -> str:
    port = (forward.host_address or forward.guest_address).rpartition(":")[2]
    kind = "u" if forward.protocol == "udp" else "t"
    return f"ss -l{kind}np 'sport = :{port}'" if port.isdigit() else "ss -ltnp"


def forwards(machine: "InstanceDirectory") -> "tuple[PortForwardState, ...]":
    """Return the forwards of a machine; empty without a host agent."""
    import asyncio

    from rdd.host import unix_http
    from rdd.vm.lifecycle.observation import Observation

    status: dict[str, Any] | None = None
    try:
        response, body = asyncio.run(
            unix_http.request(machine.ha_sock, "/v1/status", timeout_s=_TIMEOUT_S)
        )
        if response.status == 200:
            status = json.loads(body)
    except (OSError, ValueError):
        pass
    if isinstance(status, dict) and isinstance(status.get("forwards"), list):
        events = [{"portForward": forward} for forward in status["forwards"]]
    else:
        events = _events(machine.ha_stdout)
    seen = Observation()
    for event in events:
        seen = seen.after({"portForward": event.get("portForward")})
    return seen.forwards


def _events(path: Path) -> list[dict[str, Any]]:
    """Return the last events of a host agent; the first and last line may be truncated."""
    from rdd.vm.lifecycle.observation import parse_event

    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    return [status for line in lines if (status := parse_event(line)) is not None]


def disk(facts: Facts) -> Finding:
    """Check the free disk space of this host and of the guest."""
    free, path = _least_free(facts)
    if free >= 5 * _GIB:
        # Not the amount: it changes all the time, and each change would be a write.
        enough = healthy("Enough", "There is enough free disk space.", str(path))
        return _guest_disk(facts) or enough
    evidence = f"{path}: {free / _GIB:.1f} GiB free"
    from rdd.host.trash import Trash

    if entries := Trash(facts.instance.trash_dirs).entries():
        evidence += f"; the trash has {len(entries)} deleted machines or databases"
    can_prune = facts.engine == "moby" and facts.is_running
    return unhealthy(
        "DiskFull" if free < _GIB else "DiskLow",
        "The disk is full." if free < _GIB else "The disk is almost full.",
        evidence,
        next_step=facts.rdd("trash empty")
        if entries
        else facts.rdd("disk prune --all")
        if can_prune
        else largest_directories(path),
    )


def _guest_disk(facts: Facts) -> Finding | None:
    """Return the finding for a guest whose disk is short of space.

    From the events of its agent, because a request to it would wake it up in every round.
    """
    from rdd.vm.disk_report import FULL, DiskReport

    if not facts.is_running:
        return None
    statuses = [status for status in _events(facts.machine.ha_stdout) if "disk" in status]
    report = DiskReport.from_data(statuses[-1]["disk"]) if statuses else None
    if report is None or not report.pressure:
        return None
    what = "full" if report.pressure == FULL else "almost full"
    return unhealthy(
        report.pressure,
        f"The disk of the virtual machine is {what}.",
        report.space,
        next_step=facts.rdd("disk prune --all")
        if facts.engine == "moby"
        else facts.rdd("shell df -h"),
    )


def _least_free(facts: Facts) -> tuple[int, Path]:
    """Return the free bytes and a path of the fullest file system with data of the instance.

    The machine's directory has the data of the engine, or the disk of a guest.
    """
    disks: dict[int, Path] = {}
    for path in (facts.instance.dir, facts.instance.short_dir, facts.machine.path):
        existing = next(p for p in (path, *path.parents) if p.exists())
        disks.setdefault(existing.stat().st_dev, existing)
    return min((shutil.disk_usage(path).free, path) for path in disks.values())


def stored_objects(facts: Facts) -> Finding:
    """Check whether the control plane found damaged objects in its database."""
    path = facts.instance.quarantine_file
    try:
        found = json.loads(read_text(path) or "[]")
    except (HostError, ValueError) as error:
        found = [f"{path}: {error}"]
    if not found:
        return healthy("Intact", "No stored object is damaged.")
    return unhealthy(
        "ObjectsDamaged",
        f"The stored values of {len(found)} objects are damaged.",
        *(str(name) for name in found[:20]),
        next_step=facts.rdd("service quarantine ls"),
    )


def certificates(facts: Facts) -> Finding:
    """Check whether the certificate of the API matches the kubeconfig, and its expiry."""
    from rdd.client.kubeconfig import KubeconfigError, load
    from rdd.client.tls import client_context

    if not facts.is_served:
        return not_applicable("The control plane is not running, or does not respond.")
    try:
        login = load(facts.instance.config)
        context = client_context(login)
    except KubeconfigError as error:
        config, step = facts.instance.config, facts.restart_service
        return unhealthy(
            "ConfigUnreadable",
            "The kubeconfig of the control plane is missing or not readable.",
            str(error),
            # A restart replaces a file, not a directory.
            next_step=f"{move_away(config)} && {step}" if config.is_dir() else step,
        )
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
            next_step=facts.restart_service,
        )
    except OSError as error:
        text = f"The certificate could not be read: {error.strerror or error}"
        return Finding("Unknown", "NotAnswering", text)
    days = int((ssl.cert_time_to_seconds(until) - time.time()) / _DAY_S)
    if days < 7:  # it should have been renewed 30 days before
        return unhealthy(
            "ExpiresSoon",
            f"The certificate of the API expires in {days} days and was not renewed.",
            f"{login.server}: valid until {until}",
            next_step=facts.restart_service,
        )
    return healthy("Valid", f"The certificate of the API is valid for {days} days.", until)


def processes(facts: Facts) -> Finding:
    """Check for virtual machines of which only some processes run."""
    from rdd.vm.instance_dir import InstanceStatus, LimaHome

    home = LimaHome(facts.instance.lima_home)
    broken = []
    for name in home.names():
        directory = home.open(name)
        if directory is None or directory.status() is not InstanceStatus.BROKEN:
            continue
        if not _is_starting(directory):
            broken.append(directory)
    if not broken:
        return healthy("Complete", "All virtual machines are running or stopped completely.")
    if not facts.is_served:
        next_step = facts.rdd("service start")
    elif names.APP_VM_NAME in (directory.name for directory in broken):
        next_step = facts.rdd("restart")
    else:
        next_step = facts.rdd(f"limavm restart {broken[0].name}")
    return unhealthy(
        "HalfRunning",
        f"{len(broken)} virtual machine(s) are running only in part.",
        *(f"{directory.path}: {_running_part(directory)}" for directory in broken),
        next_step=next_step,
    )


def _running_part(directory: "InstanceDirectory") -> str:
    has_agent = directory.agent() is not None
    return "only its host agent is running" if has_agent else "its host agent is not running"


def _is_starting(directory: "InstanceDirectory") -> bool:
    """Return whether the host agent is so young that its driver may not have started yet."""
    if directory.agent() is None:
        return False
    try:
        return time.time() - directory.ha_pid.stat().st_mtime < _START_S
    except OSError:
        return True
