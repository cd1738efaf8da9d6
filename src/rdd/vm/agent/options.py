# SPDX-License-Identifier: Apache-2.0
"""The arguments of a host agent.

They are those of Lima's agent: `--pidfile`, `--socket`, `--debug` and the name of the machine.
This parser imports nothing, because every start of a machine waits for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.errors import HostError

USAGE = "usage: hostagent [-p|--pidfile FILE] --socket FILE [--debug] [--progress] INSTANCE"

# Flags of Lima's agent without a counterpart here.
REFUSED = {
    "run-gui": "--run-gui is not supported: no driver shows a window",
    "nerdctl-archive": "--nerdctl-archive is not supported: engines are part of the guest image",
}


class UsageError(HostError):
    """The command line is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The parsed command line."""

    name: str
    lima_home: Path
    socket: Path
    pidfile: Path | None = None
    """None: `ha.pid` of the machine."""
    debug: bool = False


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> AgentOptions:
    """Parse a command line. Raises UsageError."""
    values: dict[str, str] = {}
    names: list[str] = []
    words = list(reversed(argv))
    while words:
        word = words.pop()
        if word == "-p":
            word = "--pidfile"
        if not word.startswith("-"):
            names.append(word)
            continue
        flag, equals, value = word.removeprefix("--").partition("=")
        if flag in REFUSED:
            raise UsageError(REFUSED[flag])
        if flag in ("debug", "progress"):  # the events always contain the progress
            values[flag] = value or "true"
        elif flag in ("pidfile", "socket"):
            if not equals and not words:
                raise UsageError(f"flag needs an argument: --{flag}; {USAGE}")
            values[flag] = value if equals else words.pop()
        else:
            raise UsageError(f"unknown flag: {word}; {USAGE}")
    if len(names) != 1:
        raise UsageError(f"exactly one instance is required, not {len(names)}; {USAGE}")
    if not values.get("socket"):
        raise UsageError(f"--socket is required; {USAGE}")
    home = environment.get("LIMA_HOME", "")
    if not home:
        raise UsageError("LIMA_HOME is not set; it names the directory of all machines")
    return AgentOptions(
        name=names[0],
        lima_home=Path(home).absolute(),
        socket=Path(values["socket"]).absolute(),
        pidfile=Path(values["pidfile"]).absolute() if values.get("pidfile") else None,
        debug=values.get("debug") == "true",
    )
