# SPDX-License-Identifier: Apache-2.0
"""The boot step of a starting machine, from the events of its host agent.

The agent writes the requirement for which it waits (`rdd.vm.agent.readiness`). The phases have a
fixed order, so the step is a share of the whole boot.
"""

from typing import Any

from rdd.vm.drivers.protocol import RequirementPhase
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.observation import parse_event
from rdd.vm.log_tail import last_lines

_TAIL_BYTES = 16 * 1024
_PHASES = [str(phase) for phase in RequirementPhase]


def boot_step(directory: InstanceDirectory) -> str:
    """Return percentage and step of a boot, such as `33 %, ssh`; empty if it does not boot."""
    if directory.agent() is None:
        return ""
    for line in reversed(last_lines(directory.ha_stdout, max_bytes=_TAIL_BYTES)):
        status = parse_event(line.encode())
        if status is None:
            continue
        if status.get("running") or status.get("exiting"):
            return ""
        step = status.get("requirement")
        if isinstance(step, dict):
            return _text(step)
    return ""


def _text(step: dict[str, Any]) -> str:
    phase, number, count = step.get("phase"), step.get("number"), step.get("of")
    description = str(step.get("description") or "")
    if phase not in _PHASES or not isinstance(number, int) or not isinstance(count, int):
        return description
    done = (number - 1) / max(count, 1)
    share = (_PHASES.index(phase) + min(max(done, 0.0), 1.0)) / len(_PHASES)
    return f"{100 * share:.0f} %, {description}"
