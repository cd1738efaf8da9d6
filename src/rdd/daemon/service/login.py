# SPDX-License-Identifier: Apache-2.0
"""Start of the control plane at login, without root: a systemd user unit or a launchd agent.

Both run `rdd service serve --saved-arguments` in the foreground under supervision: systemd gets
a notification when it is ready, and both restart it after a crash but not after a stop or a
failed start. systemd's `enable` is a symbolic link, which is created here, so the installation
needs no running systemd.
"""

import contextlib
import plistlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdd.host.commands import run_blocking
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.instance import Instance

_BOOTED = Path("/run/systemd/system")  # exists if systemd runs, see sd_booted(3)
_AGENT = "io.rancherdesktop.rdd"
_KEPT_VARIABLES = ("PATH", "RDD_LOG_DIR", "DOCKER_CONFIG", "KUBECONFIG")
_RELOAD_TIMEOUT_S = 10
_STOP_TIMEOUT_S = 120  # longer than virtual machines need to shut down


@dataclass(frozen=True, slots=True)
class LoginService:
    """The login service of one instance: a unit of systemd or an agent of launchd."""

    instance: Instance
    command: Sequence[str]
    """The command of this program."""
    variables: Mapping[str, str]

    @property
    def path(self) -> Path:
        """Return the file of the unit or agent."""
        home = self.instance.home
        if self.instance.system == "darwin":
            return home / "Library" / "LaunchAgents" / f"{_AGENT}.{self.instance.suffix}.plist"
        config = Path(self.variables.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "systemd" / "user" / f"{self.instance.name}.service"

    @property
    def _wanted(self) -> Path:
        return self.path.parent / "default.target.wants" / self.path.name

    def check_manager(self, booted: Path = _BOOTED) -> None:
        """Raise HostError if nothing on this host would start the service at login."""
        if self.instance.system != "darwin" and not booted.is_dir():
            raise HostError(
                "no service manager: systemd does not run on this host, so nothing can start "
                "the control plane at login; start it with `rdd service start`, or run "
                "`rdd service serve` under a supervisor"
            )

    def install(self) -> None:
        """Write and enable the service. Raises HostError."""
        self._make_parents()
        if self.instance.system == "darwin":
            write_atomically(self.path, self.agent(), mode=0o644)
            return
        write_atomically(self.path, self.unit(), mode=0o644)
        with contextlib.suppress(FileExistsError):
            self._wanted.symlink_to(f"../{self.path.name}")
        self._reload()

    def uninstall(self) -> bool:
        """Remove the service; return whether it existed. Raises HostError."""
        found = self.path.exists()
        if self.instance.system != "darwin":
            remove(self._wanted)
        remove(self.path)
        if found:
            self._reload()
        return found

    def unit(self) -> str:
        """Return the systemd unit."""
        words = [*self.command, "--instance", self.instance.suffix]
        words += ["service", "serve", "--saved-arguments"]
        environment = "".join(
            f"Environment={_systemd_quote(f'{name}={value}')}\n"
            for name, value in self._environment().items()
        )
        return (
            "[Unit]\n"
            f"Description=rdd control plane {self.instance.name}\n"
            "\n"
            "[Service]\n"
            "Type=notify\n"
            f"ExecStart={' '.join(map(_systemd_quote, words))}\n"
            f"{environment}"
            "Restart=on-abnormal\n"
            "KillMode=process\n"
            f"TimeoutStopSec={_STOP_TIMEOUT_S}\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        )

    def agent(self) -> bytes:
        """Return the launchd property list."""
        words = [*self.command, "--instance", self.instance.suffix]
        return plistlib.dumps(
            {
                "Label": f"{_AGENT}.{self.instance.suffix}",
                "ProgramArguments": [*words, "service", "serve", "--saved-arguments"],
                "EnvironmentVariables": self._environment(),
                "RunAtLoad": True,
                "KeepAlive": {"Crashed": True},
                "ExitTimeOut": _STOP_TIMEOUT_S,
                "AbandonProcessGroup": True,
                "ProcessType": "Interactive",
            }
        )

    def _environment(self) -> dict[str, str]:
        """Return the variables that the daemon needs and a login session lacks."""
        return {name: self.variables[name] for name in _KEPT_VARIABLES if self.variables.get(name)}

    def _make_parents(self) -> None:
        parent = self.path.parent if self.instance.system == "darwin" else self._wanted.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError.from_os(f'create directory "{parent}"', error) from error

    def _reload(self) -> None:
        """Reload a running systemd; otherwise the next login reads the unit."""
        program = shutil.which("systemctl", path=self.variables.get("PATH"))
        if self.instance.system == "darwin" or program is None:
            return
        with contextlib.suppress(HostError):
            run_blocking(
                program,
                "--user",
                "daemon-reload",
                timeout_s=_RELOAD_TIMEOUT_S,
                environment=self.variables,
            )


def _systemd_quote(word: str) -> str:
    """Quote a word of ExecStart= or Environment=: `%` and `$` are not expanded."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$")}"'
