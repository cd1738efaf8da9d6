# SPDX-License-Identifier: Apache-2.0
"""Shared by the commands of `rdd service`: the service of a call, and errors as exit codes."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.framework.errors import TIMED_OUT, VERSION_MISMATCH, CommandError
from rdd.cli.framework.logline import klog_verbosity
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.cli.framework.progress import Progress
    from rdd.daemon.service.lifecycle import Service


LISTENING = ("listen-address", "tls-cert-file", "tls-private-key-file")


def service_for(call: Call, progress: "Progress | None" = None) -> "Service":
    """Return the service of a call; its messages are also the details of `progress`."""
    from rdd.cli.commands.version import version
    from rdd.daemon.service.lifecycle import Caller, Service

    def report(message: str) -> None:
        call.log.info(message)
        if progress is not None:
            progress.detail(message)

    environment = call.environment
    caller = Caller(
        command=call.program.command,
        version=version(),
        variables=environment.variables,
        report=report,
        developer_mode=environment.developer_mode,
        keep_logs=environment.keep_logs,
        log_title=environment.log_title,
    )
    return Service(call.instance, caller)


@contextlib.contextmanager
def working(call: Call, phase: str) -> Iterator["Service"]:
    """Provide the service; a wait of more than two seconds shows its progress."""
    from rdd.cli.framework.progress import LONG_S, shown

    with translated(), shown(call, delay_s=LONG_S) as progress:
        progress.phase(phase)
        yield service_for(call, progress)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Convert errors of the service to CommandError."""
    from rdd.daemon.service.errors import DeadlineExceeded, ServiceError, VersionMismatch

    try:
        yield
    except DeadlineExceeded as error:
        raise CommandError(str(error), exit_code=TIMED_OUT) from error
    except VersionMismatch as error:
        raise CommandError(str(error), exit_code=VERSION_MISMATCH) from error
    except ServiceError as error:
        raise CommandError(str(error)) from error


def serve_verbosity(call: Call) -> list[str]:
    """Return the `-v` with which the daemon logs at the level of this call."""
    return ["-v", str(klog_verbosity(call.log.level))]


def serve_arguments(call: Call) -> list[str]:
    """Return the flags of `service create` and `service start` to pass to the daemon."""
    words: list[str] = []
    for name in ("controllers", "secure-port"):
        if name in call.flags.given:
            words += [f"--{name}", str(call.flags.values[name])]
    if call.flags.values.get("without-user-admission"):
        words.append("--without-user-admission")
    return words


def check_serve_arguments(words: Sequence[str]) -> None:
    """Reject arguments that the daemon would reject later. Raises CommandError."""
    from rdd.cli.commands.declarations import GLOBAL
    from rdd.cli.commands.service.declarations import SERVE
    from rdd.cli.framework.flags import Parser

    parser = Parser((*GLOBAL, *SERVE.flags), "rdd service serve")
    rest = parser.parse(words)
    if rest:
        raise CommandError(f"rdd service serve takes flags only, not {quote(rest[0])}")
    flags = parser.result()
    if flags.text("store"):
        from rdd.daemon.sharing.etcd import check_address

        with translated():
            check_address(flags.text("store"))
    if flags.text("machine"):
        from rdd.daemon.sharing.etcd import check_machine

        with translated():
            check_machine(flags.text("machine"), flags.text("store"))
    listening = [flags.text(name) for name in LISTENING]
    if any(listening):
        from rdd.daemon.sharing.listening import check_flags

        with translated():
            check_flags(*listening)
    if "controllers" in flags.given:
        from rdd.daemon.managers.selection import select_controllers

        with translated():
            select_controllers(flags.text("controllers"))
