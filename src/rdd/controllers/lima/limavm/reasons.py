# SPDX-License-Identifier: Apache-2.0
"""The conditions of LimaVMs: every reason and message, in one table.

Other programs match reasons and messages, so the controller creates every condition from
here; docs/limavm.md lists them.
"""

from collections.abc import Sequence
from typing import Final

from rdd.api import names
from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.kinds.limavm import LimaVM
from rdd.runtime.conditions import (
    FORWARDED,
    Condition,
    Reason,
    ReasonTable,
    conditions_of,
    find_condition,
)
from rdd.vm.clock_report import ClockReport, offset_text
from rdd.vm.disk_report import FULL, LOW, DiskReport
from rdd.vm.idle.report import IdleReport
from rdd.vm.memory_report import MemoryReport
from rdd.vm.problem import AGENT_HUNG, ENGINE_HUNG, GUEST_HUNG

CREATED, RUNNING, DEGRADED, PAUSED = "Created", "Running", "Degraded", "Paused"
CLOCK, MEMORY = "ClockSynchronized", "MemoryReclaimed"
DISK_PRESSURE, TRIMMED = names.DISK_PRESSURE, "DiskTrimmed"
OF_RUNNING = frozenset((PAUSED, CLOCK, MEMORY, DISK_PRESSURE, TRIMMED))
"""The conditions that a machine has only while it runs."""

REASONS: Final = ReasonTable(
    Reason(CREATED, "Unknown", "Pending", "Reconciliation in progress",
           "the instance is being created"),
    Reason(CREATED, "True", "Created", "Lima instance exists", "the instance is on disk"),
    Reason(CREATED, "False", "CreateFailed", FORWARDED,
           "the creation failed; nothing is left on disk, and the controller retries"),
    Reason(RUNNING, "Unknown", "Reconciling", "Verifying instance state after controller restart",
           "the state of the machine is being determined"),
    Reason(RUNNING, "False", "Starting", "Lima instance is starting", "the guest is booting"),
    Reason(RUNNING, "True", "Started", "Lima instance is running", "the guest is up"),
    Reason(RUNNING, "False", "Stopped", "Lima instance is stopped", "no process is left"),
    Reason(RUNNING, "False", "Held", "Stopped while it is used by …",
           "a snapshot is being made or restored; the machine continues afterwards"),
    Reason(RUNNING, "False", "StartFailed", FORWARDED,
           "the machine did not come up or did not stay up; the controller retries"),
    Reason(RUNNING, "False", "StopFailed", FORWARDED,
           "the machine still runs; the controller retries"),
    Reason(DEGRADED, "True", "Degraded", FORWARDED,
           "the machine runs, but the host agent reports a failure without a message"),
    Reason(DEGRADED, "True", ENGINE_HUNG, FORWARDED,
           "the container engine runs and does not respond; ends when it responds again"),
    Reason(DEGRADED, "True", GUEST_HUNG, FORWARDED,
           "the guest runs and does not respond; ends when it responds again"),
    Reason(DEGRADED, "True", AGENT_HUNG, FORWARDED,
           "the host agent is stopped or its event loop is blocked; the other conditions are old"),
    Reason(PAUSED, "True", "Idle", FORWARDED,
           "nothing in the machine runs; the first byte of a client wakes it"),
    Reason(PAUSED, "True", "Suspended", FORWARDED,
           "the memory is saved on disk and given back; the first byte of a client wakes it"),
    Reason(PAUSED, "False", "Awake", FORWARDED,
           "the machine runs; the message has what woke it up, or what keeps it awake"),
    Reason(PAUSED, "False", "StopRequested", FORWARDED,
           "the machine is idle and is about to be stopped"),
    Reason(PAUSED, "False", "NotSupported", FORWARDED,
           "the action of spec.idle is impossible here; nothing happens to an idle machine"),
    Reason(PAUSED, "False", "PauseFailed", FORWARDED,
           "the last attempt failed; the next one follows after the next idle time"),
    Reason(CLOCK, "True", "Synchronized", FORWARDED,
           "the guest's clock is within 1 s of this computer's; the message has when it was set"),
    Reason(CLOCK, "False", "ClockOff", FORWARDED,
           "the guest's clock is off and cannot be set; retried once a minute"),
    Reason(CLOCK, "Unknown", "NotMeasured", FORWARDED,
           "the guest's clock can be neither read nor set; retried once a minute"),
    Reason(MEMORY, "True", "Balloon", "memory that the guest does not need is given back"),
    Reason(MEMORY, "False", "NoBalloon", FORWARDED,
           "the guest has no balloon driver: this host keeps what the guest ever touched"),
    Reason(DISK_PRESSURE, "True", LOW, FORWARDED,
           "less than a tenth, or 5 GiB, of a file system of the guest is free"),
    Reason(DISK_PRESSURE, "True", FULL, FORWARDED, "less than a fiftieth, or 1 GiB, is free"),
    Reason(TRIMMED, "True", "Trimmed", FORWARDED,
           "the guest gave back what was deleted in it; the message has when and how much"),
    Reason(TRIMMED, "False", "TrimFailed", FORWARDED,
           "what is deleted in the guest keeps its space on this computer, with the reason"),
)  # fmt: skip

PENDING = REASONS.condition(CREATED, "Pending")
CREATED_NOW = REASONS.condition(CREATED, "Created", "Lima instance created successfully")
EXISTS = REASONS.condition(CREATED, "Created")
RECONCILING = REASONS.condition(RUNNING, "Reconciling")
ADOPTING = REASONS.condition(
    RUNNING, "Reconciling", "Host agent has ended, taking over the running instance"
)
STARTING = REASONS.condition(RUNNING, "Starting")
STARTED = REASONS.condition(RUNNING, "Started")
IS_STOPPED = REASONS.condition(RUNNING, "Stopped")
STOPPED_NOW = REASONS.condition(RUNNING, "Stopped", "Lima instance stopped successfully")
STOPPED_FOR_RESTART = REASONS.condition(RUNNING, "Stopped", "Stopped for restart")
STOPPED_FOR_RESET = REASONS.condition(RUNNING, "Stopped", "Stopped for reset")


def progress(message: str) -> Condition:
    return REASONS.condition(CREATED, "Pending", message)


def create_failed(message: str) -> Condition:
    return REASONS.condition(CREATED, "CreateFailed", message)


def start_failed(message: str) -> Condition:
    return REASONS.condition(RUNNING, "StartFailed", message)


def held(holder: str) -> Condition:
    return REASONS.condition(RUNNING, "Held", holder)


def stop_failed(message: str) -> Condition:
    return REASONS.condition(RUNNING, "StopFailed", message)


def degraded(errors: Sequence[str], reason: str = "Degraded") -> Condition:
    return REASONS.condition(DEGRADED, reason, "\n".join(errors))


def paused(report: IdleReport | None, problem: str) -> Condition | None:
    """Return the condition for the report of a host agent; None without idle detection.

    `problem` is why idle detection has no effect at all.
    """
    if problem:
        return REASONS.condition(PAUSED, "NotSupported", problem)
    if report is None or not report.action:
        return None
    fallback = f"; {report.problem}" if report.problem else ""
    if report.paused_since:
        word, reason = ("suspended", "Suspended") if report.is_suspended else ("paused", "Idle")
        message = f"{word} since {report.paused_since}: {report.cause}{fallback}"
        return REASONS.condition(PAUSED, reason, message)
    if report.wants_stop:
        return REASONS.condition(PAUSED, "StopRequested", report.cause)
    if report.action == "none":
        return REASONS.condition(PAUSED, "NotSupported", report.problem)
    texts = [
        f"woken up at {report.woken_at} by {report.cause}" if report.woken_at else "",
        f"kept awake: {report.awake_because}" if report.awake_because else "",
        report.problem,
    ]
    message = "; ".join(filter(None, texts)) or "it has not been idle yet"
    reason = "PauseFailed" if report.has_failed else "Awake"
    return REASONS.condition(PAUSED, reason, message)


def clock(report: ClockReport) -> Condition:
    """Return the condition for the clock of a guest."""
    if report.ahead_s:
        message = f"the guest's clock is {offset_text(report.ahead_s)}: {report.problem}"
        return REASONS.condition(CLOCK, "ClockOff", message)
    if report.problem:
        return REASONS.condition(CLOCK, "NotMeasured", f"the guest's clock: {report.problem}")
    message = "the guest's clock is within 1 s of this computer's"
    if report.set_at:
        message += f"; it was {offset_text(report.was_ahead_s)} and was set at {report.set_at}"
    return REASONS.condition(CLOCK, "Synchronized", message)


def disk(report: DiskReport | None) -> list[Condition]:
    """Return the conditions for the disk of a guest."""
    if report is None:
        return []
    found = []
    if report.pressure:
        found.append(REASONS.condition(DISK_PRESSURE, report.pressure, report.space))
    if report.problem:
        found.append(REASONS.condition(TRIMMED, "TrimFailed", report.problem))
    elif report.trimmed_at:
        returned = f"{binary(report.returned_bytes)} were given back at {report.trimmed_at}"
        found.append(REASONS.condition(TRIMMED, "Trimmed", returned))
    return found


def condition_of(vm: LimaVM, type_: str) -> Object | None:
    """Return a condition of a LimaVM, or None."""
    return find_condition(conditions_of(vm.raw), type_)


def status_of(vm: LimaVM, type_: str) -> str:
    """Return the status of a condition; empty without one."""
    return str((condition_of(vm, type_) or {}).get("status", ""))


def reason_of(vm: LimaVM, type_: str) -> str:
    """Return the reason of a condition; empty without one."""
    return str((condition_of(vm, type_) or {}).get("reason", ""))


def is_created(vm: LimaVM) -> bool:
    return status_of(vm, CREATED) == "True"


def memory(report: MemoryReport) -> Condition:
    """Return the condition for the memory of a guest."""
    if report.problem:
        return REASONS.condition(MEMORY, "NoBalloon", report.problem)
    return REASONS.condition(MEMORY, "Balloon")
