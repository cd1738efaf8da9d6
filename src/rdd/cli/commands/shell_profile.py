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
    directory = str(call.instance.bin_dir)
    lines = _fish(directory, values) if shell == "fish" else _posix(directory, values)
    call.out.write("\n".join(lines) + "\n")
    return 0


def _own_shell(call: Call) -> str:
    name = call.environment.variables.get("SHELL", "").rpartition("/")[2]
    return name if name in SHELLS else "sh"


def _posix(directory: str, values: dict[str, str]) -> list[str]:
    quoted = shlex.quote(directory)
    return [
        # Sourcing the file twice must not extend PATH twice.
        f'case ":$PATH:" in *:{quoted}:*) ;; *) export PATH={quoted}:"$PATH" ;; esac',
        *(f"export {name}={shlex.quote(value)}" for name, value in values.items()),
    ]


def _fish(directory: str, values: dict[str, str]) -> list[str]:
    quoted = _fish_quote(directory)
    return [
        f"contains -- {quoted} $PATH; or set -gx PATH {quoted} $PATH",
        *(f"set -gx {name} {_fish_quote(value)}" for name, value in values.items()),
    ]


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
