# SPDX-License-Identifier: Apache-2.0
"""Checks of the control plane itself, for commands: is it up, does it respond, can it start.

They complement the checks of `rdd.controllers.app.diagnostics`, which also run inside of the
daemon. A daemon that runs holds its database open; its files are then not examined beyond
their existence.
"""

import time
from calendar import timegm

from rdd.controllers.app.commands import rdd_command
from rdd.controllers.app.diagnostics.findings import (
    Finding,
    healthy,
    not_applicable,
    unhealthy,
)
from rdd.daemon.service import arguments, backups, crash, hang
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.lifecycle import START_TIMEOUT_S
from rdd.daemon.service.record import DaemonRecord, State
from rdd.host.errors import HostError
from rdd.instance import Instance

CONTROL_PLANE, DATABASE = "control-plane", "database"


def control_plane(
    instance: Instance,
    daemon: DaemonRecord | None,
    *,
    problem: str = "",
    is_config_unreadable: bool = False,
    missing: str = "",
) -> Finding:
    """Check the process of the daemon; `problem` is why it did not respond, if it did not.

    It cannot be asked without its kubeconfig, which is a problem of its own. `missing` describes
    an instance that does not exist.
    """
    if daemon is None and missing:
        message = missing[0].upper() + missing[1:]
        return Finding("Unknown", "NotCreated", message, (), rdd_command(instance, "start"))
    if daemon is None:
        return _stopped(instance)
    evidence = f"pid {daemon.process.pid}, state {daemon.state.name.lower()}"
    # Its machines run on, and the next daemon adopts them.
    replace = f"kill -9 {daemon.process.pid}; {rdd_command(instance, 'service start')}"
    if daemon.state is not State.READY:
        if _age_s(daemon) > START_TIMEOUT_S and daemon.state < State.READY:
            return unhealthy(
                "StartHangs",
                "The control plane has been starting for too long.",
                f"{evidence}, step {daemon.step or 'unknown'}",
                next_step=replace,
            )
        reason = "Stopping" if daemon.state is State.STOPPING else "Starting"
        return Finding("Unknown", reason, f"The control plane is {reason.lower()}.", (evidence,))
    if is_config_unreadable:
        message = "The control plane is running, but commands cannot connect to it."
        return Finding("Unknown", "NotAsked", message, (evidence,))
    if problem and hang.is_stopped(daemon):
        return unhealthy(
            "NotAnswering",
            "The control plane is stopped and does not respond.",
            evidence,
            hang.process_text(daemon),
            f"to end it instead (its machines run on): kill -9 {daemon.process.pid}",
            next_step=f"kill -CONT {daemon.process.pid}",
        )
    if problem:
        return unhealthy(
            "NotAnswering",
            "The control plane is running but does not respond.",
            evidence,
            *dict.fromkeys((hang.process_text(daemon), problem)),
            next_step=replace,
        )
    crashed = filter(None, (crash.last(instance),))
    return healthy("Running", "The control plane is running and responds.", evidence, *crashed)


def _stopped(instance: Instance) -> Finding:
    if arguments.exists(instance):
        try:
            arguments.load(instance)
        except (ServiceError, HostError) as error:
            return unhealthy(
                "ArgumentsDamaged",
                "The control plane cannot start: its saved arguments are damaged.",
                str(error),
                next_step=f"echo '[]' > '{instance.args_file}'",
            )
    alive, crashed = _live_machines(instance), crash.last(instance)
    if alive:
        return unhealthy(
            "MachinesAlone",
            "The control plane is not running, but virtual machines are.",
            *alive,
            *filter(None, (crashed,)),
            next_step=rdd_command(instance, "service start"),
        )
    if crashed:
        return unhealthy(
            "Crashed",
            "The control plane is not running: it ended unexpectedly.",
            crashed,
            next_step=rdd_command(instance, "start"),
        )
    message = "The control plane is not running."
    return Finding("Unknown", "NotRunning", message, (), rdd_command(instance, "start"))


def _live_machines(instance: Instance) -> list[str]:
    from rdd.vm.instance_dir import LimaHome

    home = LimaHome(instance.lima_home)
    found = []
    for name in home.names():
        directory = home.directory(name)
        process = directory.driver_process() or directory.agent()
        if process is not None:
            found.append(f"{directory.path}: process {process.pid}")
    return found


def database(instance: Instance, daemon: DaemonRecord | None) -> Finding:
    """Check whether the database can be used."""
    path = instance.database
    if daemon is not None and daemon.state is not State.READY:
        return not_applicable("The control plane is about to use the database, or to release it.")
    if daemon is not None:
        if path.exists():
            return healthy("InUse", "The control plane uses the database.", str(path))
        if not path.with_name(f"{path.name}.lock").exists():
            return not_applicable("The control plane keeps its objects elsewhere.")
        return unhealthy(
            "Removed",
            "The database was removed while the control plane uses it.",
            f"{path}: missing",
            next_step=f"{rdd_command(instance, 'service stop')} && "
            f"{rdd_command(instance, 'service start')}",
        )
    from rdd.store.contract import NewerFormat
    from rdd.store.sqlite.examination import examine

    problem = examine(path)
    copy = backups.usable(instance) if problem else None
    restore = rdd_command(instance, f"service restore {copy.name}" if copy else "service reset")
    if isinstance(problem, NewerFormat):
        return unhealthy(
            "NewerFormat",
            "The database was written by a newer version. Update rdd; the next step keeps the "
            f"database and {'restores an older backup' if copy else 'starts with an empty one'}.",
            str(problem),
            next_step=restore,
        )
    if problem and copy:
        return unhealthy(
            "Damaged",
            "The database is damaged. The next step keeps it and restores the newest backup.",
            str(problem),
            f"the newest backup is {copy}",
            next_step=restore,
        )
    if problem:
        return unhealthy(
            "Damaged",
            "The database is damaged. The next step keeps it and starts with an empty one.",
            str(problem),
            next_step=restore,
        )
    if not path.exists():
        return not_applicable("There is no database yet.")
    return healthy("Intact", "The database is intact.", str(path))


def _age_s(daemon: DaemonRecord) -> float:
    try:
        return time.time() - timegm(time.strptime(daemon.start_time, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0.0
