# SPDX-License-Identifier: Apache-2.0
"""`rdd service serve`: run the control plane in the foreground.

`service start` runs it in the background, a login service under its supervisor. Only
the latter reads the saved arguments; otherwise the command line alone applies.
"""

import faulthandler
import os
import sys
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.commands.declarations import GLOBAL
from rdd.cli.commands.service.calls import translated
from rdd.cli.commands.service.declarations import SERVE
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.help import flag_table
from rdd.cli.framework.logline import Level, Log
from rdd.cli.framework.types import Call, Flags

if TYPE_CHECKING:
    from pathlib import Path

    from rdd.daemon.key_issuer import KeyIssuer
    from rdd.instance import Instance


def run(call: Call) -> int:
    """Serve until interrupted; `serve options` lists the flags."""
    if call.args:
        if call.args != ("options",):
            raise CommandError(f"rdd service serve takes flags only, not {quote(call.args[0])}")
        call.out.write(
            flag_table(SERVE.flags, developer=True, width=call.environment.width(call.out))
        )
        return 0
    with translated():
        _serve(call)
    return 0


def _serve(call: Call) -> None:
    from rdd.daemon.key_issuer import KeyIssuer

    issuer = KeyIssuer.start_if_needed(call.instance.tls_dir)  # works while we import the rest
    try:
        _serve_with(call, issuer)
    finally:
        if issuer is not None:
            issuer.close()


def _serve_with(call: Call, issuer: "KeyIssuer | None") -> None:
    from rdd.cli.commands.version import version
    from rdd.cli.framework.log_handler import forward_logging
    from rdd.daemon.flag_files import AuditOptions
    from rdd.daemon.options import ServeOptions
    from rdd.daemon.serve import LaunchContext, serve
    from rdd.daemon.service.publish import Publisher
    from rdd.host.log_limits import SizeLimit
    from rdd.instance import STDERR_LOG, STDOUT_LOG

    faulthandler.enable(2)  # stderr is the log: a fatal signal leaves the stacks there
    instance, environment = call.instance, call.environment
    supervised = call.flags.truth("saved-arguments")
    flags = _with_saved(instance, call.flags) if supervised else call.flags
    size_limit = SizeLimit(
        instance.log_dir,
        {1: STDOUT_LOG, 2: STDERR_LOG},
        keep_all=environment.keep_logs,
        first_line=environment.log_title,
    )
    forward_logging(_log(call, flags.integer("v")), after=size_limit.check)
    port = flags.integer("secure-port")
    if not 0 <= port <= 65535:
        raise CommandError(f"invalid --secure-port {port}; allowed: 0 to 65535 (0: any free port)")
    hosts, origins = _names(flags, "allowed-hosts"), _names(flags, "allowed-origins")
    _check_names(hosts, origins)
    options = ServeOptions(
        secure_port=port,
        controllers=flags.text("controllers"),
        builtin_controllers=flags.text("builtin-controllers"),
        client_ca_file=flags.text("client-ca-file"),
        token_auth_file=flags.text("token-auth-file"),
        audit=AuditOptions(
            policy_file=flags.text("audit-policy-file"),
            log_path=flags.text("audit-log-path"),
            max_age_days=flags.integer("audit-log-maxage"),
            max_backups=flags.integer("audit-log-maxbackup"),
            max_size_mib=flags.integer("audit-log-maxsize"),
            log_format=flags.text("audit-log-format"),
        ),
        version=version(),
        idle_timeout_s=flags.seconds("idle-timeout"),
        http2=flags.truth("http2"),
        allowed_hosts=hosts,
        allowed_origins=origins,
        has_open_metrics=flags.truth("open-metrics"),
        store=flags.text("store"),
        machine=flags.text("machine"),
        identity_dir=flags.text("identity-dir"),
        listen_address=flags.text("listen-address"),
        tls_cert_file=flags.text("tls-cert-file"),
        tls_private_key_file=flags.text("tls-private-key-file"),
        has_user_admission=not flags.truth("without-user-admission"),
        environment=environment.variables,
        key_issuer=issuer,
    )
    publisher = Publisher(
        instance.bin_dir, _executable(call), use_symlinks=environment.use_symlinks
    )
    launch = LaunchContext(
        variables=environment.variables,
        lock_descriptor=flags.integer("lock-fd"),
        notify_socket=environment.notify_socket,
        pause_at=environment.pause_at,
        publish=publisher.publish,
        open_logs=(lambda: _log_to_files(call)) if supervised else lambda: None,
    )
    serve(instance, options, launch)


def _names(flags: Flags, flag: str) -> list[str]:
    return [name.strip() for name in flags.text(flag).split(",") if name.strip()]


def _check_names(hosts: list[str], origins: list[str]) -> None:
    """Reject malformed names before anything starts."""
    from rdd.http.hosts import HostRules

    for flag, names, further in (
        ("--allowed-hosts", hosts, []),
        ("--allowed-origins", [], origins),
    ):
        try:
            HostRules(names, origins=further)
        except ValueError as error:
            raise CommandError(f"invalid {flag}: {error}") from error


def _with_saved(instance: "Instance", given: Flags) -> Flags:
    """Return the saved arguments, overridden by the command line."""
    from rdd.daemon.service import arguments

    words = arguments.load(instance) if arguments.exists(instance) else []
    saved = Parser((*GLOBAL, *SERVE.flags), "rdd service serve")
    saved.parse(words)
    values = {**saved.result().values, **{name: given.values[name] for name in given.given}}
    return Flags(values, given.given | saved.result().given)


def _log(call: Call, verbosity: int) -> Log:
    """Return the log of a daemon: level info unless the user chose another one or set `-v`."""
    level: Level = "trace" if verbosity >= 4 else "debug" if verbosity >= 2 else "info"
    is_chosen = "log-level" in call.flags.given or call.environment.variables.get("RDD_LOG_LEVEL")
    return call.log if is_chosen and level == "info" else call.log.at_least(level)


def _executable(call: Call) -> "Path":
    from pathlib import Path

    path = Path(call.program.path)
    # `python -m rdd` may still have an installed script beside the interpreter.
    return Path(sys.executable).with_name("rdd") if path.suffix == ".py" else path


def _log_to_files(call: Call) -> None:
    """Redirect stdout and stderr to the log files, as `service start` does for its child."""
    from rdd.host.logs import rotate
    from rdd.instance import STDERR_LOG, STDOUT_LOG

    for name, stream in ((STDOUT_LOG, sys.stdout), (STDERR_LOG, sys.stderr)):
        environment = call.environment
        path = rotate(
            call.instance.log_dir,
            name,
            keep_all=environment.keep_logs,
            first_line=environment.log_title,
        )
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        stream.flush()
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
