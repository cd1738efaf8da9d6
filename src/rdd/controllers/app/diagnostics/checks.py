# SPDX-License-Identifier: Apache-2.0
"""The checks: each verifies one thing from outside, as the user's tools would.

A check is a function from facts to a finding. It looks at the moment of the call, it may block
(files, sockets), it changes nothing, and a problem that it finds is a finding, not an
exception. `rdd doctor` and `rdd status` run these functions, also without a daemon; the
controller runs them in a thread. docs/doctor.md lists every finding.

`CHECKS` has all of the App; `host_checks` and `engine_checks` contain a part of them. Those of the
control plane and its database need no App and are in `rdd.daemon.service.checks`. A new reason of
Settled that waiting does not resolve belongs in `_STUCK`, too.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rdd.api import names
from rdd.controllers.app.diagnostics import engine_checks, host_checks
from rdd.controllers.app.diagnostics.findings import (
    Facts,
    Finding,
    healthy,
    not_applicable,
    unhealthy,
)

# Reasons of the condition Settled that waiting does not resolve, and the command that helps.
_STUCK = {
    "NoDriver": "start",
    "NotOurs": f"ctl delete limavm,configmap {names.APP_VM_NAME}",
    "NotInstalled": "set kubernetes.enabled=false",
    "Refused": "service log",
    "CreateFailed": "service log",
    "StartFailed": f"limavm log {names.APP_VM_NAME}",
    "StopFailed": f"limavm log {names.APP_VM_NAME}",
    "MergeFailed": "service log",
}

Check = Callable[[Facts], Finding]


def app(facts: Facts) -> Finding:
    """Check whether the App is settled or settling."""
    settled = facts.condition(names.SETTLED)
    if not settled:
        return not_applicable("The App does not exist or is not known.")
    reason = settled["reason"]
    failure = ((facts.app or {}).get("status") or {}).get("failure") or {}
    if reason not in _STUCK and not failure:
        return healthy(reason, settled["message"])
    first, *evidence = settled["message"].splitlines() or [reason]
    return unhealthy(
        reason,
        first,
        *(evidence or [first]),
        next_step=failure.get("remedy") or facts.rdd(_STUCK.get(reason, "start")),
    )


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "app": app,
        "certificates": host_checks.certificates,
        "disk": host_checks.disk,
        "docker-context": engine_checks.docker_context,
        "engine": engine_checks.engine,
        "kube-context": engine_checks.kube_context,
        "mounts": engine_checks.mounts,
        "ports": host_checks.ports,
        "processes": host_checks.processes,
        "stored-objects": host_checks.stored_objects,
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
