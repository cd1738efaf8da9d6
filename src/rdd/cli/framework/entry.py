# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command line: from the arguments of a process to its exit code.

In order: the name of the executable (`kubectl`, `yq`), `--instance` as the very first
argument, global flags and the command, the log, the command itself. Every failure ends
here as one line on stderr and a documented exit code; Ctrl-C ends in `rdd.host.interrupts`.
"""

import importlib
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO

from rdd.base.gotext import quote
from rdd.cli.framework.dispatch import Match, match
from rdd.cli.framework.environment import Environment
from rdd.cli.framework.errors import BROKEN_PIPE, FAILED, CommandError
from rdd.cli.framework.logline import Format, Log, parse_format
from rdd.cli.framework.program import Program, program
from rdd.cli.framework.types import Call, Command
from rdd.host.errors import HostError

if TYPE_CHECKING:
    from rdd.instance import System

SYSTEMS: dict[str, "System"] = {"darwin": "darwin", "win32": "windows"}


_WITHOUT_HOME = (
    ("__complete",),
    ("ls",),
    ("service", "delete"),
    ("service", "paths"),
    ("service", "status"),
    ("service", "stop"),
    ("shell-profile",),
)
"""Commands that create nothing: a mistyped HOME does them no harm."""


def run(
    argv: Sequence[str],
    environ: MutableMapping[str, str],
    *,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    """Run the command in `argv` and return the exit code.

    `--instance` is written to `environ` as RDD_INSTANCE, so that child processes use the
    same instance.
    """
    words = list(argv[1:])
    log = Log(
        stderr,
        format=output_format("json" if _asks_for_json(words) else "text", environ, stderr),
        suffix=take_instance(words)[0] or environ.get("RDD_INSTANCE", ""),
    )
    try:
        code = _run(program(argv[0]), words, environ, stdout=stdout, stderr=stderr)
        stdout.flush()
        return code
    except CommandError as error:
        log.failure(str(error), exit_code=error.exit_code)
        return error.exit_code
    except HostError as error:
        log.failure(str(error), exit_code=FAILED)
        return FAILED
    except BrokenPipeError:
        _abandon(stdout)
        return BROKEN_PIPE
    except OSError as error:
        _abandon(stdout)
        place = quote(str(error.filename)) if error.filename else "stdout"  # streams have no name
        log.failure(f"cannot use {place}: {error.strerror or error}", exit_code=FAILED)
        return FAILED
    except UnicodeEncodeError as error:
        # Arguments that are not UTF-8 are valid for files, but nothing else has such a name.
        shown = quote(str(error.object)[:200])
        log.failure(f"{shown} is not valid UTF-8", exit_code=FAILED)
        return FAILED
    except Exception as error:
        return report_unexpected(error, log, _shows_tracebacks(words, environ), stderr)


def report_unexpected(error: Exception, log: Log, shows_traceback: bool, stderr: TextIO) -> int:
    """Report an exception that no command expected: a bug. Return the exit code."""
    hint = ""
    if shows_traceback:
        import traceback

        stderr.write("".join(traceback.format_exception(error)))
    else:
        hint = "; --log-level=debug shows where"
    log.failure(f"unexpected error: {type(error).__name__}: {error}{hint}", exit_code=FAILED)
    return FAILED


def _shows_tracebacks(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether the log level is debug or trace, without relying on parsed flags."""
    requested = environ.get("RDD_LOG_LEVEL", "")
    for word, after in pairwise([*words, ""]):
        if word == "--log-level":
            requested = after
        elif word.startswith("--log-level="):
            requested = word.partition("=")[2]
    return requested.lower() in ("debug", "trace")


def take_instance(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split off a leading `--instance`; return its value (may be empty) and the rest.

    Without a value, or followed by another flag, it is ignored: the next source of the name
    applies.
    """
    first = words[0] if words else ""
    if first.startswith("--instance="):
        return first.removeprefix("--instance="), list(words[1:])
    if first != "--instance":
        return "", list(words)
    if len(words) < 2 or words[1].startswith("-"):
        return "", list(words[1:])
    return words[1], list(words[2:])


def _run(
    this: Program,
    words: list[str],
    environ: MutableMapping[str, str],
    *,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    environment = Environment(dict(environ), SYSTEMS.get(sys.platform, "linux"))
    if this.multicall:
        words = [this.multicall, *words]
    else:
        suffix, words = take_instance(words)
        if suffix:
            environment = environment.with_instance(suffix)
            environ["RDD_INSTANCE"] = environment.suffix()
    found = match(words)
    environment = environment._replace(may_lack_home=found.path[1:] in _WITHOUT_HOME)
    call = Call(
        path=found.path,
        args=found.args,
        flags=found.flags,
        program=this,
        environment=environment,
        log=_log(found, environment, stderr),
        out=stdout,
    )
    return _execute(found, call)


def _log(found: Match, environment: Environment, stderr: TextIO) -> Log:
    level = environment.log_level(found.flags.text("log-level"))
    requested = parse_format(found.flags.text("log-format"))
    return Log(
        stderr,
        level=level,
        format=output_format(requested, environment.variables, stderr),
        suffix=environment.variables.get("RDD_INSTANCE", ""),
    )


def output_format(requested: Format, variables: Mapping[str, str], stderr: TextIO) -> Format:
    """Return the format of log messages: the requested one, or coloured text on a terminal."""
    if requested == "text" and stderr.isatty() and not variables.get("NO_COLOR"):
        return "terminal"
    return requested


def _execute(found: Match, call: Call) -> int:
    if "version" in found.flags.given:
        from rdd.cli.commands.version import show

        return show(call, found.flags.text("version"))
    raw = isinstance(found.target, Command) and found.target.raw
    if not found.target.module or (found.flags.truth("help") and not raw):
        from rdd.cli.framework.help import show_help

        show_help(call, found.path, found.target)
        if isinstance(found.target, Command) and found.target.has_details:
            details = importlib.import_module(found.target.module).help_details(call)
            call.out.write(f"\n{details}\n")
        return 0
    if "output" in found.flags.given:
        from rdd.cli.framework.outputs import check_format

        check_format(call, found.target)
    module = importlib.import_module(found.target.module)
    code: int = module.run(call)
    return code


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether `--log-format` requests JSON, before the flags are parsed.

    A program that reads JSON must be able to read usage errors, too.
    """
    return "--log-format=json" in words or ("--log-format", "json") in pairwise(words)


def _abandon(stream: TextIO) -> None:
    """Discard buffered output of a stream that can no longer be written.

    Otherwise Python flushes it at exit and prints a second message.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
