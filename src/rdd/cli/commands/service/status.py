# SPDX-License-Identifier: Apache-2.0
"""`rdd service status`: show whether the control plane exists and is running."""

from typing import TYPE_CHECKING, Any

from rdd.base.gotext import quote
from rdd.cli.commands.service.calls import service_for, translated
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.daemon.service.record import DaemonRecord


def run(call: Call) -> int:
    """Print three lines, or one JSON object."""
    form = call.flags.text("output")
    if form not in ("text", "json"):
        raise CommandError(f"unknown output format {quote(form)}; valid formats: text or json")
    daemon = service_for(call).running()
    found = status(call, daemon)
    if form == "json":
        import json

        call.out.write(json.dumps({**found, "server": server(call)}) + "\n")
        _check(call, daemon)
        return 0
    log = call.log.at_least("info")
    title = f'"{found["name"]}" control plane'
    log.info(f"{title} has been created: {_word(found['created'])}")
    log.info(f"{title} has been started: {_word(found['started'])}")
    log.info(f"{title} PID is: {found['pid']}")
    if found["developerMode"]:
        log.info("developer mode is enabled")
    if found["lastCrash"]:
        log.warning(found["lastCrash"])
    _check(call, daemon)
    return 0


def _check(call: Call, daemon: "DaemonRecord | None") -> None:
    """Fail for a control plane that was ready and hangs. Raises CommandError."""
    if daemon is None:
        return
    from rdd.daemon.service.hang import check_responsive

    with translated():
        check_responsive(call.instance, daemon)


def status(call: Call, daemon: "DaemonRecord | None") -> dict[str, Any]:
    """Return the state of the control plane without sending a request."""
    from rdd.daemon.service import arguments, crash

    return {
        "name": call.instance.name,
        "created": arguments.exists(call.instance),
        "started": daemon is not None,
        "ready": daemon is not None and daemon.state.name == "READY",
        "state": daemon.state.name.lower() if daemon else "stopped",
        "pid": daemon.process.pid if daemon else 0,
        "version": daemon.version if daemon else "",
        "startTime": daemon.start_time if daemon else "",
        "environment": dict(daemon.environment) if daemon else {},
        "lastCrash": crash.last(call.instance),
        "developerMode": call.environment.developer_mode,
    }


def server(call: Call) -> str:
    """Return the URL of the API; empty without a kubeconfig."""
    from rdd.client.kubeconfig import KubeconfigError, load

    try:
        return load(call.instance.config).server
    except KubeconfigError:
        return ""


def _word(value: bool) -> str:
    return "true" if value else "false"
