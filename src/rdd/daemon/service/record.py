# SPDX-License-Identifier: Apache-2.0
"""The record of a running daemon, for commands.

`daemon.json` contains the identity of the process (pid and start time), its state, its version,
and the environment variables that determine how it edits the user's files. It is valid only
while exactly that process runs: after a crash it counts as absent. `rdd.pid` contains the bare
process id for scripts; rdd itself does not read it.

    starting → serving → registered → ready → stopping → (no record)
"""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rdd.host import processes
from rdd.host.files import read_text, remove, write_atomically, write_new
from rdd.host.processes import Identity
from rdd.instance import Instance

# Variables of the daemon's environment that select files of the user.
RECORDED_VARIABLES = ("DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "KUBECONFIG")


class State(enum.IntEnum):
    """The state of a daemon; it only increases."""

    STARTING = 0
    SERVING = 1
    """The API is served."""
    REGISTERED = 2
    """Controllers run and are registered in the discovery ConfigMap."""
    READY = 3
    STOPPING = 4


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """The record of one daemon."""

    process: Identity
    version: str
    state: State = State.STARTING
    step: str = ""
    """The stage within the state; informational."""
    start_time: str = ""
    """RFC 3339."""
    supervised: bool = False
    """Run by `service serve`, not in the background by `service start`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    oom_kills: int = -1
    """How many processes the kernel had killed for want of memory at its start; -1: unknown."""

    def with_state(self, state: State, step: str = "") -> "DaemonRecord":
        """Return the record in another state."""
        return replace(self, state=state, step=step)


def read(instance: Instance) -> DaemonRecord | None:
    """Return the record of the running daemon, or None."""
    record = read_any(instance)
    return record if record is not None and processes.is_alive(record.process) else None


def read_any(instance: Instance) -> DaemonRecord | None:
    """Return the record that there is, also of a daemon that has crashed."""
    return _parse(read_text(instance.record_file))


def write(instance: Instance, record: DaemonRecord) -> None:
    """Replace the record; only the daemon calls this. Raises HostError."""
    # The record is invalid after a crash of the machine, so it is not synced.
    write_atomically(instance.record_file, _text(record), durable=False)


def write_initial(instance: Instance, record: DaemonRecord) -> None:
    """Write the record of a spawned daemon unless the daemon has written it."""
    write_new(instance.record_file, _text(record), durable=False)
    write_new(instance.pid_file, str(record.process.pid), durable=False)


def write_pid(instance: Instance, pid: int) -> None:
    """Write the process id for scripts: decimal, no newline."""
    write_atomically(instance.pid_file, str(pid), durable=False)


def clear(instance: Instance) -> None:
    """Remove the files of an ended daemon: record, process id and kubeconfig."""
    for path in (instance.config, instance.pid_file, instance.record_file):
        remove(path)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are recorded."""
    return {name: variables[name] for name in RECORDED_VARIABLES if variables.get(name)}


def last_environment(instance: Instance) -> Mapping[str, str]:
    """Return the environment of the last daemon, also of a crashed one."""
    record = read_any(instance)
    return record.environment if record is not None else {}


def _text(record: DaemonRecord) -> str:
    return json.dumps(
        {
            "pid": record.process.pid,
            "started": record.process.started,
            "version": record.version,
            "state": record.state.name.lower(),
            "step": record.step,
            "startTime": record.start_time,
            "supervised": record.supervised,
            "environment": dict(record.environment),
            "oomKills": record.oom_kills,
        },
        indent=2,
    )


def _parse(text: str | None) -> DaemonRecord | None:
    if text is None:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        return DaemonRecord(
            process=Identity(int(found["pid"]), str(found["started"])),
            version=str(found["version"]),
            state=State[str(found["state"]).upper()],
            step=str(found.get("step") or ""),
            start_time=str(found.get("startTime") or ""),
            supervised=bool(found.get("supervised")),
            environment=dict(found.get("environment") or {}),
            oom_kills=int(found.get("oomKills", -1)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # truncated by a crash
