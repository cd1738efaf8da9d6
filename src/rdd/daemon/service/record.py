# SPDX-License-Identifier: Apache-2.0
"""What a daemon says about itself, for the commands that look from outside.

`daemon.json` names the process (pid and start time), how far it is, its version,
and those variables of its environment that steer what it does to the user's files.
It is believed only while exactly that process lives: after a crash it is as good
as absent. `rdd.pid` holds the bare process id for scripts; nothing here reads it.

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

# What of the daemon's environment, frozen when it started, decides about files of the user.
RECORDED_VARIABLES = ("DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "KUBECONFIG")


class State(enum.IntEnum):
    """How far a daemon is; it only moves forward."""

    STARTING = 0
    SERVING = 1
    """The API answers."""
    REGISTERED = 2
    """Controllers run and are listed in the discovery ConfigMap."""
    READY = 3
    STOPPING = 4


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """One daemon."""

    process: Identity
    version: str
    state: State = State.STARTING
    step: str = ""
    """What it is doing, finer than the state; for people."""
    start_time: str = ""
    """RFC 3339."""
    supervised: bool = False
    """Run by `service serve`, not in the background by `service start`."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def with_state(self, state: State, step: str = "") -> "DaemonRecord":
        """The same daemon, further on."""
        return replace(self, state=state, step=step)


def read(instance: Instance) -> DaemonRecord | None:
    """The daemon of an instance; None unless it is alive."""
    record = _parse(read_text(instance.record_file))
    return record if record is not None and processes.is_alive(record.process) else None


def write(instance: Instance, record: DaemonRecord) -> None:
    """Replace the record: called by the daemon only. Raises HostError."""
    # After a crash of the machine the record means nothing, so nobody waits for the disk.
    write_atomically(instance.record_file, _text(record), durable=False)


def write_initial(instance: Instance, record: DaemonRecord) -> None:
    """Write the record of a daemon that was just started, unless it has done so itself."""
    write_new(instance.record_file, _text(record), durable=False)
    write_new(instance.pid_file, str(record.process.pid), durable=False)


def write_pid(instance: Instance, pid: int) -> None:
    """Name the process for scripts: decimal, no newline."""
    write_atomically(instance.pid_file, str(pid), durable=False)


def clear(instance: Instance) -> None:
    """Remove what a daemon that is gone has left: record, process id and kubeconfig."""
    for path in (instance.config, instance.pid_file, instance.record_file):
        remove(path)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that are recorded."""
    return {name: variables[name] for name in RECORDED_VARIABLES if variables.get(name)}


def last_environment(instance: Instance) -> Mapping[str, str]:
    """The environment of the last daemon, also of one that has crashed."""
    record = _parse(read_text(instance.record_file))
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
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # cut off by a crash: nobody vouches for it
