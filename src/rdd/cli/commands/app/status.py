# SPDX-License-Identifier: Apache-2.0
"""`rdd status`: one screen with the state, endpoints, problems and the next step.

Read-only: starts nothing and changes nothing. The states come from the API; the problems are
those of `rdd doctor`, found at the moment of the call, also without a running control plane.
"""

from typing import TYPE_CHECKING, Any

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.machine import machines_path
from rdd.cli.commands.diagnosis import TIMEOUT_S, KnownApp, diagnose, read_app
from rdd.cli.commands.service.calls import service_for
from rdd.cli.commands.service.status import server
from rdd.cli.commands.service.status import status as service_status
from rdd.cli.framework.connection import conditions_of, connected, get_or_none
from rdd.cli.framework.environment import terminal_width
from rdd.cli.framework.errors import FAILED, CommandError
from rdd.cli.framework.existing import missing_instance
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain
from rdd.cli.framework.wrapping import columns, filled, unbroken

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_LABELS = {
    "controlPlane": "Control plane",
    "app": "App",
    "virtualMachine": "Virtual machine",
    "containerEngine": "Container engine",
    "kubernetes": "Kubernetes",
    "dockerContext": "Docker context",
    "kubeContext": "Kube context",
}


def run(call: Call) -> int:
    as_json = is_json(call)
    with waiting(call, "running the checks"):
        found = collect(call)
    if as_json:
        import json

        call.out.write(json.dumps(found) + "\n")
    else:
        call.out.write(render(found, terminal_width(call.out)))
    return FAILED if _is_hung(found) else 0


def collect(call: Call) -> Object:
    """Return the state of all parts as JSON-compatible data."""
    daemon = service_for(call).running()
    service = service_status(call, daemon)
    found: Object = {
        "controlPlane": {**service, "server": server(call)},
        "parts": [_control_plane({**service, "server": server(call)})],
        "ports": [],
        "problems": [],
    }
    missing = missing_instance(call)
    if missing:
        found["parts"] = [_part("controlPlane", "not created", missing)]
    known = read_app(call, daemon)
    findings = diagnose(call, daemon, known)
    found["problems"] = [_problem(entry) for entry in findings if entry["healthy"] == "False"]
    if daemon is not None and not known.problem:
        try:
            with connected(call, start=False, timeout_s=TIMEOUT_S) as connection:
                _add_app(call, connection, known, found)
        except CommandError as error:  # it stopped in between
            problem = {"name": "control-plane", "message": str(error), "nextStep": ""}
            found["problems"].append(problem)
        _add_contexts(findings, found)
    found["nextStep"] = _next_step(call, daemon is not None, known, found["problems"])
    return found


def _is_hung(found: Object) -> bool:
    """Return whether the control plane was ready and does not respond any more."""
    names_ = {problem["name"] for problem in found["problems"]}
    return bool(found["controlPlane"]["ready"]) and "control-plane" in names_


def _control_plane(service: Object) -> Object:
    state = "running" if service["ready"] else service["state"]
    detail = service["name"]
    if service["started"]:
        parts = (f"pid {service['pid']}", service["server"])  # a starting one has no address yet
        detail = ", ".join(filter(None, (detail, *parts)))
        if service["lastCrash"]:
            detail += "; started after a crash: `rdd service status` has the reason"
    return _part("controlPlane", state, detail)


def _part(name: str, state: str, detail: str = "") -> Object:
    return {"name": name, "state": state, "detail": detail}


def _add_app(call: Call, connection: "Connection", known: KnownApp, found: Object) -> None:
    app = known.app
    if app is None:
        found["parts"].append(_part("app", "none"))
        return
    spec, conditions = app.get("spec") or {}, conditions_of(app)
    settled = conditions.get(names.SETTLED, {})
    found["app"] = app
    machine = get_or_none(connection, f"{machines_path(app)}/{names.APP_VM_NAME}")
    found["parts"] += [
        _part(
            "app",
            "settled" if settled.get("status") == "True" else "not settled",
            settled.get("message", "no condition yet"),
        ),
        _machine(machine, conditions, (app.get("status") or {}).get("virtualMachineType", "")),
        _engine(call, spec, conditions),
        _kubernetes(app, conditions),
    ]
    found["ports"] = _ports(call, connection, spec.get("namespace") or names.DEFAULT_NAMESPACE)


def _machine(machine: Object | None, conditions: dict[str, Object], kind: str) -> Object:
    if machine is None:
        created = conditions.get(names.CREATED, {})
        return _part("virtualMachine", "none", created.get("message", ""))
    running = conditions_of(machine).get(names.RUNNING, {})
    status = machine.get("status") or {}
    word = {"Started": "running", "Stopped": "stopped", "Starting": "starting"}
    reason = str(running.get("reason", "unknown"))
    detail = str(running.get("message", ""))
    if running.get("status") == "True":
        starts = status.get("restartCount", 0)
        detail = "started once" if starts == 1 else f"started {starts} times"
        if kind:
            detail = f"{kind}, {detail}"
        if memory := status.get("guestMemory"):
            uses = f"uses {memory['used']}, " if memory.get("used") else ""
            detail = f"{detail}, memory: {uses}{memory.get('host', '0')} on this host"
        paused = conditions_of(machine).get(names.PAUSED, {})
        if paused.get("status") == "True":
            state = "suspended" if paused.get("reason") == "Suspended" else "paused"
            return _part("virtualMachine", state, f"{detail}, {paused['message']}")
        if paused:
            detail = f"{detail}, {paused['message']}"
    return _part("virtualMachine", word.get(reason) or reason, detail)


def _engine(call: Call, spec: Object, conditions: dict[str, Object]) -> Object:
    name = (spec.get("containerEngine") or {}).get("name", "moby")
    ready = conditions.get(names.ENGINE_READY, {})
    if ready.get("status") == "True":
        where = f", {call.instance.docker_endpoint}" if name == "moby" else ""
        return _part("containerEngine", ready.get("reason", "").lower(), f"{name}{where}")
    return _part(
        "containerEngine",
        ready.get("reason", "unknown").lower(),
        f"{name}: {ready.get('message', 'no condition yet')}",
    )


def _kubernetes(app: Object, conditions: dict[str, Object]) -> Object:
    wanted = (app["spec"].get("kubernetes") or {}) if app.get("spec") else {}
    if not wanted.get("enabled"):
        return _part("kubernetes", "off")
    ready = conditions.get(names.KUBERNETES_READY, {})
    port = (app.get("status") or {}).get("kubernetesPort") or 0
    state = "ready" if ready.get("status") == "True" else ready.get("reason", "unknown")
    detail = f"{wanted.get('version', '')}, https://127.0.0.1:{port}"
    if state != "ready":
        detail = f"{wanted.get('version', '')}: {ready.get('message', 'no condition yet')}"
    return _part("kubernetes", state, detail)


def _ports(call: Call, connection: "Connection", namespace: str) -> list[Object]:
    """Return the published ports of running containers, without those that do not listen."""
    path = f"{names.CONTAINERS_API}/namespaces/{namespace}/containers"
    listed = get_or_none(connection, path)
    dead = _failed_forwards(call)
    found = []
    for container in (listed or {}).get("items") or []:
        status: dict[str, Any] = container.get("status") or {}
        if status.get("status") != "running":
            continue
        for port in status.get("ports") or []:
            for binding in port.get("bindings") or []:
                host = _address(binding["hostIP"], binding["hostPort"])
                if (str(port["name"]).rpartition("/")[2], host) in dead:
                    continue
                found.append(
                    {"host": host, "container": status.get("name", ""), "port": port["name"]}
                )
    return sorted(found, key=lambda entry: (entry["container"], entry["port"], entry["host"]))


def _failed_forwards(call: Call) -> set[tuple[str, str]]:
    """Return protocol and host address of the ports that are published in vain."""
    from rdd.controllers.app.diagnostics.host_checks import forwards
    from rdd.vm.instance_dir import LimaHome

    machine = LimaHome(call.instance.lima_home).directory(names.APP_VM_NAME)
    failed = (forward for forward in forwards(machine) if forward.type == "failed")
    return {(forward.protocol, forward.host_address) for forward in failed}


def _address(ip: str, port: object) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip or '0.0.0.0'}:{port}"


def _words(reason: str) -> str:
    """Convert a CamelCase reason to words: `NotCurrent` becomes `not current`."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in reason).strip()


def _add_contexts(findings: list[Object], found: Object) -> None:
    parts = {"docker-context": "dockerContext", "kube-context": "kubeContext"}
    for entry in findings:
        kind = parts.get(entry["name"])
        if kind and entry["healthy"] == "True" and found.get("app"):
            state = "-" if entry["reason"] == "NotApplicable" else _words(entry["reason"])
            found["parts"].append(_part(kind, state, "" if state == "-" else entry["message"]))


def _problem(entry: Object) -> Object:
    return {key: entry[key] for key in ("name", "message", "evidence", "nextStep")}


def _next_step(call: Call, is_served: bool, known: KnownApp, problems: list[Object]) -> str:
    from rdd.controllers.app.commands import rdd_command

    if problems:
        return next((str(p["nextStep"]) for p in problems if p["nextStep"]), "")
    app = known.app
    if not is_served or (app is None and not known.problem):
        return rdd_command(call.instance, "start")
    if app is None:
        return ""  # it is starting or stopping
    if conditions_of(app).get(names.SETTLED, {}).get("status") != "True":
        return rdd_command(call.instance, "service log --follow")
    is_wanted = bool((app.get("spec") or {}).get("running"))
    return "" if is_wanted else rdd_command(call.instance, "start")


def render(found: Object, width: int = 0) -> str:
    """Return the screen as text that fits in `width` columns; 0 means no limit."""
    # Further lines of a message are the evidence of a problem.
    rows = [
        (_LABELS[p["name"]], p["state"], plain(p["detail"].partition("\n")[0]))
        for p in found["parts"]
    ]
    for i, port in enumerate(found["ports"]):
        rows.append(
            ("Ports" if i == 0 else "", port["host"], f"{port['container']} {port['port']}")
        )
    lines = columns(rows, width, margin="")
    if found["problems"]:
        lines += ["", "Problems:", *(x for p in found["problems"] for x in _described(p, width))]
    elif found.get("nextStep"):
        lines += ["", *filled(f"Next step: {unbroken(found['nextStep'])}", width)]
    return "\n".join(lines) + "\n"


def _described(problem: Object, width: int) -> list[str]:
    indent = "    "
    lines = filled(
        f"{problem['name']}: {plain(problem['message'])}", width, start="  ", indent=indent
    )
    for text in problem.get("evidence") or []:
        if text == problem["message"]:
            continue
        lines += filled(plain(text), width, start=indent, indent=indent + "  ")
    if problem["nextStep"]:
        step = f"next step: {unbroken(problem['nextStep'])}"
        lines += filled(step, width, start=indent, indent=indent)
    return lines
