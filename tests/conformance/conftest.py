# SPDX-License-Identifier: Apache-2.0
"""One server on a port for all real clients, and kubectl to talk to it.

The server lives as long as the session; each test module gets a clean one by a
reset, and each test a namespace of its own, so tests can share it.
"""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.programs import PIPE, Program, run_program, start_program

from rdd.testing import LiveServer, Options

_numbers = itertools.count(1)

CRONTABS = Path(__file__).parent / "crontabs.yaml"


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """The server of the session."""
    options = Options(crds=[CRONTABS], users={"reader": ["readers"], "nobody": []})
    with LiveServer(options, directory=tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="module")
def server(live: LiveServer) -> LiveServer:
    """The server, as it was after its start."""
    live.reset()
    return live


@pytest.fixture
def namespace(server: LiveServer) -> str:
    """A namespace for one test."""
    name = f"test-{next(_numbers)}"
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
async def connections_end(server: LiveServer) -> AsyncIterator[None]:
    """Lets the clients of an event loop say goodbye before the loop ends."""
    before = server.connections  # of synchronous clients, which have no loop to wait for
    yield
    async with asyncio.timeout(10):
        while server.connections > before:  # noqa: ASYNC110  (the other side is another thread)
            await asyncio.sleep(0.005)
    await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of kubectl gave."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The output, decoded."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines of the output."""
        return self.out.splitlines()


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The real kubectl, with one server and one namespace."""

    program: Path
    kubeconfig: Path
    namespace: str
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *args: str) -> list[str]:
        """The command line."""
        # Behind the first word: the hidden completion command must come first.
        return [str(self.program), args[0], "--namespace", self.namespace, *args[1:]]

    @property
    def env(self) -> dict[str, str]:
        """The variables it runs with: nothing of the user's."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            **self.environment,
        }

    def attempt(self, *args: str, stdin: str | None = None, timeout_s: float = 60) -> Outcome:
        """Run it; any exit code is fine."""
        done = run_program(
            self.command(*args),
            env=self.env,
            input=stdin if stdin is not None else "",
            timeout=timeout_s,
            cwd=self.home,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __call__(self, *args: str, stdin: str | None = None) -> Outcome:
        """Run it; it must succeed."""
        outcome = self.attempt(*args, stdin=stdin)
        assert outcome.code == 0, f"kubectl {' '.join(args)}: {outcome.err}{outcome.out}"
        return outcome

    def start(self, *args: str) -> Program[str]:
        """Start it in the background, with its output as a pipe."""
        return start_program(self.command(*args), env=self.env, stderr=PIPE)

    def as_user(self, kubeconfig: Path) -> "Kubectl":
        """The same with another kubeconfig."""
        return Kubectl(self.program, kubeconfig, self.namespace, self.home, self.environment)

    def with_environment(self, **variables: str) -> "Kubectl":
        """The same with further variables."""
        return Kubectl(
            self.program, self.kubeconfig, self.namespace, self.home, self.environment | variables
        )


@pytest.fixture(scope="session")
def _kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # kubectl keeps what it has discovered below HOME; sharing it saves requests.
    return tmp_path_factory.mktemp("kubectl-home")


@pytest.fixture
def k(kubectl: Path, server: LiveServer, namespace: str, _kubectl_home: Path) -> Kubectl:
    """kubectl as the administrator, in the namespace of the test."""
    return Kubectl(kubectl, server.kubeconfig, namespace, _kubectl_home)


def manifest(*objects: dict[str, Any]) -> str:
    """Objects as kubectl reads them from a pipe."""
    return yaml.safe_dump_all(objects)
