# SPDX-License-Identifier: Apache-2.0
"""`rdd run COMMAND…`: run a program with the instance's container engine and cluster.

Starts the App first and waits for it. The program gets the instance's tools first on
PATH, its docker context and its kubeconfig. It runs as a child process, so that rdd can
forward signals and return its exit code, or 128 plus the number of the signal that
killed it.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call, Flags, Value
from rdd.host.spawn import popen

if TYPE_CHECKING:
    from rdd.instance import Instance

_WAIT_S = 300.0
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NEEDS_KUBERNETES = ("kubectl", "helm")


def run(call: Call) -> int:
    words = list(call.args)
    if words[:1] in (["-h"], ["--help"]):
        from rdd.cli.framework.dispatch import match
        from rdd.cli.framework.help import show_help

        found = match(["run"])
        show_help(call, found.path, found.target)
        return 0
    if words[:1] == ["--"]:
        del words[0]
    if not words:
        raise CommandError("run requires a command to execute")
    _ensure_app(call, words[0])
    _warn_of_other_docker_config(call)
    variables = child_variables(call.environment.variables, call.instance)
    return _run_child(words, variables, call)


def _ensure_app(call: Call, command: str) -> None:
    from rdd.cli.commands.app.object import APP
    from rdd.cli.commands.app.properties import Assignment
    from rdd.cli.commands.app.set import apply
    from rdd.cli.framework.connection import connected, get_or_none

    assignments = [Assignment("running", "true")]
    name = os.path.basename(command).removesuffix(".exe")  # noqa: PTH119 - text, not a path
    if name in _NEEDS_KUBERNETES:
        with connected(call) as connection:
            if get_or_none(connection, APP) is None:
                assignments.append(Assignment("kubernetes.enabled", "true"))
    values: dict[str, Value] = {
        "wait": True,
        "timeout": _WAIT_S,
        "timings": False,
        "output": "text",
    }
    apply(call._replace(flags=Flags(values, frozenset())), assignments)


def _warn_of_other_docker_config(call: Call) -> None:
    """Warn if the daemon wrote the docker context to another configuration than the child reads."""
    from rdd.cli.commands.service.calls import service_for

    daemon = service_for(call).running()
    if daemon is None:
        return
    there = dict(daemon.environment).get("DOCKER_CONFIG", "")
    here = call.environment.variables.get("DOCKER_CONFIG", "")
    if there != here:
        call.log.warning(
            f"DOCKER_CONFIG is {quote(here)} here and {quote(there)} in the daemon, which wrote "
            "the docker context: docker may not find it; restart the daemon from this shell "
            "(`rdd service stop`, `rdd service start`)"
        )


def child_variables(variables: Mapping[str, str], instance: "Instance") -> dict[str, str]:
    """Return the environment of the child process."""
    child = {name: value for name, value in variables.items() if name != "DOCKER_HOST"}
    path = variables.get("PATH", "")
    ours = [str(instance.tools_bin_dir), str(instance.bin_dir)]
    child["PATH"] = os.pathsep.join([*ours, path] if path else ours)
    child["DOCKER_CONTEXT"] = instance.name
    child["KUBECONFIG"] = str(instance.kube_config)
    return child


def _run_child(words: list[str], variables: dict[str, str], call: Call) -> int:
    import shutil

    program = shutil.which(words[0], path=variables["PATH"])
    if program is None:
        raise CommandError(f"{quote(words[0])}: executable file not found in $PATH")
    call.out.flush()
    pending: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: FrameType | None) -> None:
        if child is None:
            pending.append(number)
        elif child.poll() is None:
            child.send_signal(number)

    # A terminal signals the child as well; a duplicate is harmless. What nohup or a shell made
    # this process ignore, the child ignores, too.
    before = {
        number: signal.signal(number, forward)
        for number in _FORWARDED
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        try:
            child = popen([program, *words[1:]], keeps_ignored=True, env=variables)
        except OSError as error:
            raise CommandError(f"failed to run {quote(program)}: {error.strerror}") from error
        for number in pending:
            child.send_signal(number)
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code
