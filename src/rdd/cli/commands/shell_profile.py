# SPDX-License-Identifier: Apache-2.0
"""`rdd shell-profile`: print shell code that puts rdd's tools on PATH."""

import shlex

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

SHELLS = ("bash", "zsh", "fish", "sh")


def run(call: Call) -> int:
    shell = call.flags.text("shell") or _own_shell(call)
    if shell not in SHELLS:
        raise CommandError(f"unknown shell {quote(shell)}; valid shells: {', '.join(SHELLS)}")
    values = {}
    if call.flags.truth("contexts"):
        values["DOCKER_CONTEXT"] = call.instance.name
        values["KUBECONFIG"] = str(call.instance.kube_config)
    # The fetched kubectl comes before `kubectl`, the link to rdd.
    directories = [str(call.instance.tools_bin_dir), str(call.instance.bin_dir)]
    is_last = call.flags.truth("own-tools-first")
    write = _fish if shell == "fish" else _posix
    call.out.write("\n".join(write(directories, values, is_last=is_last)) + "\n")
    return 0


def _own_shell(call: Call) -> str:
    name = call.environment.variables.get("SHELL", "").rpartition("/")[2]
    return name if name in SHELLS else "sh"


def _posix(directories: list[str], values: dict[str, str], *, is_last: bool) -> list[str]:
    lines = []
    for directory in directories if is_last else reversed(directories):
        quoted = shlex.quote(directory)
        value = f'"$PATH":{quoted}' if is_last else f'{quoted}:"$PATH"'
        # Sourcing the file twice must not extend PATH twice.
        lines.append(f'case ":$PATH:" in *:{quoted}:*) ;; *) export PATH={value} ;; esac')
    return [*lines, *(f"export {name}={shlex.quote(value)}" for name, value in values.items())]


def _fish(directories: list[str], values: dict[str, str], *, is_last: bool) -> list[str]:
    lines = []
    for directory in directories if is_last else reversed(directories):
        quoted = _fish_quote(directory)
        value = f"$PATH {quoted}" if is_last else f"{quoted} $PATH"
        lines.append(f"contains -- {quoted} $PATH; or set -gx PATH {value}")
    return [*lines, *(f"set -gx {name} {_fish_quote(value)}" for name, value in values.items())]


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
