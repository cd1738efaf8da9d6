# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.kubectl`: the built-in kubectl as a program of its own."""

import sys

import pytest
from tests.programs import CompletedProcess, run_program

from rdd.testing import LiveServer

LIST_MODULES = (
    "import sys; sys.argv = ['kubectl', 'get', 'ns']; from rdd.kubectl.__main__ import main\n"
    "main(); sys.stderr.write(' '.join(sys.modules))"
)


def run(apiserver: LiveServer, *command: str) -> CompletedProcess[str]:
    env = {"KUBECONFIG": str(apiserver.kubeconfig), "HOME": "/none"}
    return run_program([sys.executable, *command], env=env)


def test_module_runs_as_kubectl(apiserver: LiveServer) -> None:
    done = run(apiserver, "-m", "rdd.kubectl", "get", "ns", "default", "-o", "name")
    assert (done.returncode, done.stdout, done.stderr) == (0, "namespace/default\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["get", "cm", "nope"],
            'Error from server (NotFound): configmaps "nope" not found\n',
            id="server",
        ),
        pytest.param(
            ["nope"], 'error: unknown command "nope" for "kubectl"\n', id="unknown command"
        ),
    ],
)
def test_failure_has_the_text_and_exit_code_of_kubectl(
    apiserver: LiveServer, words: list[str], message: str
) -> None:
    done = run(apiserver, "-m", "rdd.kubectl", *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_command_line_of_rdd_is_not_imported(apiserver: LiveServer) -> None:
    done = run(apiserver, "-c", LIST_MODULES)
    assert done.stdout.startswith("NAME ")
    assert not [name for name in done.stderr.split() if name.split(".")[:2] == ["rdd", "cli"]]


def test_broken_pipe_ends_without_a_message(apiserver: LiveServer) -> None:
    command = f"{sys.executable} -m rdd.kubectl api-resources --no-headers; echo $? >&2"
    done = run(
        apiserver,
        "-c",
        "import os, subprocess, sys\n"
        "read, write = os.pipe(); os.close(read)\n"
        f"subprocess.run(['sh', '-c', {command!r}], stdout=write)",
    )
    assert done.stderr == "141\n"
