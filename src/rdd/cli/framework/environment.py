# SPDX-License-Identifier: Apache-2.0
"""All environment variables that rdd reads, in one place.

Other modules receive values: an `Instance`, a log level, a directory. A variable is
evaluated on use, so that `rdd version` does not fail on a variable it does not need;
the imports behind a value are deferred for the same reason.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rdd.base.gotext import parse_bool, quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.logline import Level, parse_level

if TYPE_CHECKING:
    from pathlib import Path

    from rdd.instance import Instance, System


DEFAULT_WIDTH = 80


def terminal_width(stream: TextIO) -> int:
    """Return the columns of a terminal; 0 for anything else."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return 0


class Environment(NamedTuple):
    variables: Mapping[str, str]
    system: "System"
    instance_source: str = "RDD_INSTANCE"  # who named the instance, for messages
    may_lack_home: bool = True  # a command that only prints names of files

    def with_instance(self, suffix: str) -> "Environment":
        """Return the environment with the instance selected by `--instance`."""
        variables = {**self.variables, "RDD_INSTANCE": suffix}
        return self._replace(variables=variables, instance_source="--instance")

    def instance(self) -> "Instance":
        """Return the instance. Raises CommandError when its name or home directory is invalid."""
        from rdd.instance import Instance

        return Instance(self.suffix(), self._home(), self.system, self._log_dir())

    def suffix(self) -> str:
        """Return the instance's suffix. Raises CommandError when it is invalid."""
        from rdd.instance import DEFAULT_SUFFIX, SUFFIX_RULE, InvalidInstanceName, check_suffix

        suffix = self.variables.get("RDD_INSTANCE") or DEFAULT_SUFFIX
        try:
            check_suffix(suffix)
        except InvalidInstanceName:
            raise CommandError(
                f"invalid instance name {quote(suffix)} in {self.instance_source}: "
                f"allowed are {SUFFIX_RULE}"
            ) from None
        return suffix

    @property
    def developer_mode(self) -> bool:
        """Return whether developer commands and flags are visible and the log level is debug."""
        try:
            return parse_bool(self.variables.get("RDD_DEVELOPER_MODE", ""))
        except ValueError:
            return False

    def log_level(self, flag: str) -> Level:
        """Return the level of `--log-level`, else of RDD_LOG_LEVEL, else the default."""
        if flag:
            return parse_level(flag, source="--log-level")
        if variable := self.variables.get("RDD_LOG_LEVEL", "").strip():
            return parse_level(variable, source="RDD_LOG_LEVEL")
        return "debug" if self.developer_mode else "warning"

    def width(self, stream: TextIO) -> int:
        """Return the columns for help: COLUMNS, else those of the terminal, else 80."""
        columns = self.variables.get("COLUMNS", "")
        if columns.isascii() and columns.isdigit() and 0 < len(columns) < 5 and int(columns):
            return int(columns)
        return terminal_width(stream) or DEFAULT_WIDTH

    @property
    def keep_logs(self) -> bool:
        """Return whether rotated logs are kept forever."""
        return bool(self.variables.get("RDD_KEEP_LOGS"))

    @property
    def log_title(self) -> str:
        """Return the first line of new service logs; empty for none."""
        title = self.variables.get("RDD_LOG_TITLE", "")
        return f"=== {title} ===" if title else ""

    @property
    def use_symlinks(self) -> bool:
        """Return whether published tools may be symbolic links."""
        return not self.variables.get("RDD_NO_SYMLINKS")

    @property
    def notify_socket(self) -> str:
        """Return the socket for systemd's readiness notification; empty for none."""
        return self.variables.get("NOTIFY_SOCKET", "")

    @property
    def pause_at(self) -> str:
        """Return the start or stop step at which the daemon blocks forever (for crash tests)."""
        return self.variables.get("RDD_TEST_PAUSE", "")

    @property
    def search_path(self) -> tuple[str, ...]:
        """Return the absolute directories of PATH; a relative one would run files of the cwd."""
        entries = self.variables.get("PATH", "").split(os.pathsep)
        return tuple(entry for entry in entries if os.path.isabs(entry))  # noqa: PTH117

    def _home(self) -> "Path":
        variable = "USERPROFILE" if self.system == "windows" else "HOME"
        text = self.variables.get(variable, "")
        if not text:
            raise CommandError(f"{variable} is not set; it must name your home directory")
        home = _plain_path(variable, text)
        try:
            os.scandir(home).close()
        except FileNotFoundError:
            if self.may_lack_home:
                return home
            raise CommandError(
                f"home directory {quote(text)} does not exist; create it first"
            ) from None
        except OSError as error:
            raise CommandError(
                f"cannot read home directory {quote(text)} ({variable}): {error.strerror}"
            ) from error
        return home

    def _log_dir(self) -> "Path | None":
        text = self.variables.get("RDD_LOG_DIR", "")
        return _plain_path("RDD_LOG_DIR", text) if text else None


def _plain_path(variable: str, text: str) -> "Path":
    from pathlib import Path

    if not text.isprintable():
        raise CommandError(f"{variable} {quote(text)} contains unprintable characters")
    path = Path(text)
    if not path.is_absolute():
        raise CommandError(f"{variable} {quote(text)} is not an absolute path")
    return path
