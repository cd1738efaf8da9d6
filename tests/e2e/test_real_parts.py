# SPDX-License-Identifier: Apache-2.0
"""The real programs that other tests use run; the shells complete rdd."""

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.programs import run_program


def output(*command: object, env: Mapping[str, str] | None = None) -> str:
    done = run_program([str(word) for word in command], env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_is_current_enough(kubectl: Path) -> None:
    version = json.loads(output(kubectl, "version", "--client", "-o", "json"))
    assert int(version["clientVersion"]["minor"].rstrip("+")) >= 28


def test_dockerd_runs(dockerd_path: Path) -> None:
    assert "Docker version" in output(dockerd_path, "--version")


def test_qemu_runs(qemu_path: Path) -> None:
    assert "QEMU emulator" in output(qemu_path, "--version")


def test_openssl_runs(openssl_path: Path) -> None:
    assert output(openssl_path, "version").startswith("OpenSSL")


def test_rdd_kubectl_is_the_real_kubectl(
    rdd_script: Path, kubectl: Path, clean_environment: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "kubectl").symlink_to(rdd_script)
    env = {**clean_environment, "PATH": f"{tmp_path}:{kubectl.parent}:/usr/bin:/bin"}
    expected = output(kubectl, "version", "--client", env=env)
    assert output(rdd_script, "kubectl", "version", "--client", env=env) == expected
    assert output(tmp_path / "kubectl", "version", "--client", env=env) == expected


# Each driver loads the script and prints the candidates for the words in "$@".
_BASH = """
source {script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${{#COMP_LINE}}
_rdd; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_ZSH = """
compdef() {{ }}
_describe() {{ print -rl -- "${{candidates[@]%%:*}}" }}
source {script}
words=("$@"); CURRENT=$#; _rdd
"""
_FISH = """
source {script}
complete -C "$argv" | string replace -r '\\t.*' ''; true
"""
_DRIVERS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["svc", "pa"], ["paths"], id="command"),
        pytest.param(["svc", "paths", "d"], ["dir", "docker_socket"], id="argument"),
        pytest.param(["svc", "paths", "-o", ""], ["json", "shell", "table"], id="value"),
        pytest.param(["--instance", "x", "ver"], ["version"], id="behind the instance"),
    ],
)
@pytest.mark.parametrize("shell", sorted(_DRIVERS))
def test_shell_completes_rdd(
    shell: str,
    words: list[str],
    expected: list[str],
    rdd_script: Path,
    clean_environment: Mapping[str, str],
    tmp_path: Path,
    real_part: Callable[[str], Path],
) -> None:
    program = real_part(shell)
    env = {**clean_environment, "PATH": f"{rdd_script.parent}:{os.environ['PATH']}"}
    script = tmp_path / f"rdd.{shell}"
    script.write_text(output(rdd_script, "completion", shell, env=env))
    code = _DRIVERS[shell].format(script=shlex.quote(str(script)))
    line = ["rdd " + " ".join(words)] if shell == "fish" else ["rdd", *words]
    name = [] if shell == "fish" else [shell]  # $0 of the others
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    shown = output(program, *flags, "-c", code, *name, *line, env=env)
    assert sorted(shown.split()) == expected
