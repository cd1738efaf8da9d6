# SPDX-License-Identifier: Apache-2.0
"""Executables that run controllers outside of the daemon.

`rdd-controller`, `app-controller`, `lima-controller`, `containers-controller` and
`mock-controller` run one group of controllers each. They find the instance as `rdd`
does and never start its control plane. They exit with 0 when it stops or a signal
stops them, otherwise with 1 and a one-line message (rdd.daemon.managers.external).
`lima-controller hostagent …` is a host agent.
"""

import os
import sys
from collections.abc import MutableMapping, Sequence
from typing import TextIO

from rdd.base.gotext import quote
from rdd.cli.commands.declarations import GLOBAL
from rdd.cli.framework.entry import SYSTEMS, output_format, report_unexpected
from rdd.cli.framework.environment import Environment
from rdd.cli.framework.errors import FAILED, CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.help import flag_table
from rdd.cli.framework.logline import Level, Log, parse_format
from rdd.cli.framework.types import Flag, Flags
from rdd.host.errors import HostError
from rdd.host.interrupts import run_interruptible
from rdd.host.signals import replace_process

PROGRAMS = ("rdd", "app", "lima", "containers", "mock")
"""The groups; `<group>-controller` is the program."""

FLAGS = (
    *GLOBAL,
    Flag("instance", "instance to work for (default: RDD_INSTANCE, else 2)"),
    Flag("health-port", "port of /healthz, /readyz; 0: 8081+4·index of the instance", kind="int"),
    Flag("metrics-port", "port of /metrics; 0: 8080+4·index of the instance", kind="int"),
    Flag("open-metrics", "serve /metrics to every local user, without a token", kind="bool"),
    Flag(
        "lease-duration",
        "after this time without a sign of life another process may take over; whole seconds",
        kind="duration",
        default="15s",
    ),
    Flag("v", "log more: 2 for debug, 4 for trace", kind="int", short="v"),
    Flag("version", "print the version and exit", kind="bool"),
)


def rdd_controller() -> int:
    return _main("rdd")


def app_controller() -> int:
    return _main("app")


def lima_controller() -> int:
    if sys.argv[1:2] == ["hostagent"]:
        # As a process of its own: an agent must not carry what controllers load.
        command = (sys.executable, "-m", "rdd.vm.agent", *sys.argv[2:])
        replace_process(sys.executable, command, os.environ)
    return _main("lima")


def containers_controller() -> int:
    return _main("containers")


def mock_controller() -> int:
    return _main("mock")


def _main(group: str) -> int:
    # A stream that the caller closed is None.
    stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until exit
    stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    return run_interruptible(
        lambda: run(group, sys.argv[1:], os.environ, stdout=stdout, stderr=stderr)
    )


def run(
    group: str,
    words: Sequence[str],
    environ: MutableMapping[str, str],
    *,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    """Run the controllers of a group and return the exit code."""
    log = Log(stderr, format=output_format("text", environ, stderr))
    try:
        flags = _parse(group, words)
        if flags.truth("help"):
            stdout.write(_help(group))
            return 0
        if flags.truth("version"):
            from rdd.cli.commands.version import version

            stdout.write(version() + "\n")
            return 0
        environment = _environment(flags, environ)
        form = output_format(parse_format(flags.text("log-format")), environ, stderr)
        log = Log(stderr, level=_level(flags, environment), format=form)
        _serve(group, flags, environment, log)
        return 0
    except (CommandError, HostError) as error:
        log.failure(str(error), exit_code=FAILED)
        return FAILED
    except Exception as error:
        return report_unexpected(error, log, log.level in ("debug", "trace"), stderr)


def _parse(group: str, words: Sequence[str]) -> Flags:
    program = f"{group}-controller"
    parser = Parser(FLAGS, program)
    rest = parser.parse(words)
    flags = parser.result()
    if rest:
        raise CommandError(f"{program} takes flags only, not {quote(rest[0])}")
    for name in ("health-port", "metrics-port"):
        if not 0 <= flags.integer(name) <= 65535:
            raise CommandError(f"invalid --{name} {flags.integer(name)}; allowed: 0 to 65535")
    lease_s = flags.seconds("lease-duration")
    if lease_s < 1 or lease_s != int(lease_s):
        raise CommandError("invalid --lease-duration; allowed: whole seconds, at least 1s")
    return flags


def _environment(flags: Flags, environ: MutableMapping[str, str]) -> Environment:
    environment = Environment(dict(environ), SYSTEMS.get(sys.platform, "linux"))
    if suffix := flags.text("instance"):
        environment = environment.with_instance(suffix)
        environ["RDD_INSTANCE"] = environment.suffix()
    return environment


def _level(flags: Flags, environment: Environment) -> Level:
    """Return the log level: info unless the user chose another one or set `-v`."""
    if flags.text("log-level") or environment.variables.get("RDD_LOG_LEVEL"):
        return environment.log_level(flags.text("log-level"))
    verbosity = flags.integer("v")
    return "trace" if verbosity >= 4 else "debug" if verbosity >= 2 else "info"


def _serve(group: str, flags: Flags, environment: Environment, log: Log) -> None:
    from rdd.cli.commands.version import version
    from rdd.cli.framework.log_handler import forward_logging
    from rdd.controllers import catalog
    from rdd.daemon.managers.external import ExternalOptions, serve_external
    from rdd.daemon.service.errors import ServiceError

    instance = environment.instance()
    forward_logging(log)
    options = ExternalOptions(
        group=group,
        names=catalog.PROGRAMS[group],
        health_port=flags.integer("health-port") or instance.ports.health,
        metrics_port=flags.integer("metrics-port") or instance.ports.metrics,
        has_open_metrics=flags.truth("open-metrics"),
        version=version(),
        lease_s=int(flags.seconds("lease-duration")),
        environment=environment.variables,
    )
    try:
        serve_external(instance, options)
    except ServiceError as error:
        raise CommandError(str(error)) from error


def _help(group: str) -> str:
    names = f"the controllers of group {group}"
    extra = "\n  lima-controller hostagent [flags] INSTANCE" if group == "lima" else ""
    return (
        f"Run {names} for the control plane that is running\n\n"
        f"Usage:\n  {group}-controller [flags]{extra}\n\n"
        f"Flags:\n{flag_table(FLAGS, developer=True)}"
    )
