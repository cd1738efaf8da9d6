# SPDX-License-Identifier: Apache-2.0
"""`rdd status`: one screen with the state, endpoints, problems and the next step.

Read-only: starts nothing and changes nothing. Everything but the control plane's own
state comes from the API; without a running control plane, that is all there is to show.
"""

from typing import TYPE_CHECKING, Any

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.machine import machines_path
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.service.calls import service_for
from rdd.cli.commands.service.status import server
from rdd.cli.commands.service.status import status as service_status
from rdd.cli.framework.connection import conditions_of, connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_DIAGNOSTICS = f"{names.APP_API}/diagnostics"
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
    found = collect(call)
    if as_json:
        import json

        call.out.write(json.dumps(found) + "\n")
    else:
        call.out.write(render(found))
    return 0


def collect(call: Call) -> Object:
    """Return the state of all parts as JSON-compatible data."""
    service = service_status(call, service_for(call).running())
    found: Object = {
        "controlPlane": {**service, "server": server(call)},
        "parts": [],
        "ports": [],
        "problems": [],
    }
    parts = found["parts"]
    parts.append(_control_plane(found["controlPlane"]))
    if not service["started"]:
        found["nextStep"] = "rdd start"
        return found
    try:
        with connected(call, start=False) as connection:
            _add_app(call, connection, found)
    except CommandError as error:
        found["problems"].append({"name": "control-plane", "message": str(error), "nextStep": ""})
        found["nextStep"] = "rdd service log"
    return found


def _control_plane(service: Object) -> Object:
    state = "running" if service["ready"] else service["state"]
    detail = service["name"]
    if service["started"]:
        detail += f", pid {service['pid']}, {service['server']}"
    return _part("controlPlane", state, detail)


def _part(name: str, state: str, detail: str = "") -> Object:
    return {"name": name, "state": state, "detail": detail}


def _add_app(call: Call, connection: "Connection", found: Object) -> None:
    app = get_or_none(connection, APP)
    if app is None:
        found["parts"].append(_part("app", "none"))
        found["nextStep"] = "rdd start"
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
    found["ports"] = _ports(connection, spec.get("namespace") or names.DEFAULT_NAMESPACE)
    _add_diagnostics(connection, found)
    found["nextStep"] = _next_step(spec, settled, found["problems"])


def _machine(machine: Object | None, conditions: dict[str, Object], kind: str) -> Object:
    if machine is None:
        created = conditions.get(names.CREATED, {})
        return _part("virtualMachine", "none", created.get("message", ""))
    running = conditions_of(machine).get(names.RUNNING, {})
    status = machine.get("status") or {}
    word = {"Started": "running", "Stopped": "stopped", "Starting": "starting"}
    reason = str(running.get("reason", "unknown"))
    detail = running.get("message", "")
    if running.get("status") == "True":
        detail = f"started {status.get('restartCount', 0)} time(s)"
        if kind:
            detail = f"{kind}, {detail}"
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


def _ports(connection: "Connection", namespace: str) -> list[Object]:
    """Return the published ports of running containers."""
    path = f"{names.CONTAINERS_API}/namespaces/{namespace}/containers"
    listed = get_or_none(connection, path)
    found = []
    for container in (listed or {}).get("items") or []:
        status: dict[str, Any] = container.get("status") or {}
        if status.get("status") != "running":
            continue
        for port in status.get("ports") or []:
            for binding in port.get("bindings") or []:
                found.append(
                    {
                        "host": _address(binding["hostIP"], binding["hostPort"]),
                        "container": status.get("name", ""),
                        "port": port["name"],
                    }
                )
    return sorted(found, key=lambda entry: (entry["container"], entry["port"], entry["host"]))


def _address(ip: str, port: object) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip or '0.0.0.0'}:{port}"


def _words(reason: str) -> str:
    """Convert a CamelCase reason to words: `NotCurrent` becomes `not current`."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in reason).strip()


def _add_diagnostics(connection: "Connection", found: Object) -> None:
    listed = get_or_none(connection, _DIAGNOSTICS)
    for item in (listed or {}).get("items") or []:
        name = item["metadata"]["name"]
        healthy = conditions_of(item).get(names.HEALTHY, {})
        message = healthy.get("message", "")
        if name in ("docker-context", "kube-context") and healthy.get("status") == "True":
            kind = "dockerContext" if name == "docker-context" else "kubeContext"
            state = "-" if healthy["reason"] == "NotApplicable" else _words(healthy["reason"])
            found["parts"].append(_part(kind, state, "" if state == "-" else message))
        if healthy.get("status") == "False":
            status = item.get("status") or {}
            found["problems"].append(
                {
                    "name": name,
                    "message": message,
                    "evidence": status.get("evidence") or [],
                    "nextStep": status.get("nextStep", ""),
                }
            )


def _next_step(spec: Object, settled: Object, problems: list[Object]) -> str:
    if problems:
        return str(problems[0]["nextStep"])
    if settled.get("status") != "True":
        return "rdd set --wait … waits; `rdd service log --follow` shows what is done"
    return "" if spec.get("running") else "rdd start"


def render(found: Object) -> str:
    # Further lines of a message are the evidence of a problem.
    rows = [
        (_LABELS[p["name"]], p["state"], p["detail"].partition("\n")[0]) for p in found["parts"]
    ]
    for i, port in enumerate(found["ports"]):
        rows.append(
            ("Ports" if i == 0 else "", port["host"], f"{port['container']} {port['port']}")
        )
    left = max(len(label) for label, _, _ in rows)
    middle = max(len(state) for _, state, _ in rows)
    lines = [f"{a:<{left}}  {b:<{middle}}  {c}".rstrip() for a, b, c in rows]
    if found["problems"]:
        lines += ["", "Problems:"]
        for problem in found["problems"]:
            lines.append(f"  {problem['name']}: {problem['message']}")
            lines += [f"    {line}" for line in problem.get("evidence") or []]
            if problem["nextStep"]:
                lines.append(f"    next step: {problem['nextStep']}")
    elif found.get("nextStep"):
        lines += ["", f"Next step: {found['nextStep']}"]
    return "\n".join(lines) + "\n"
