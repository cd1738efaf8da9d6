# SPDX-License-Identifier: Apache-2.0
"""One server on a port for all real clients, and a real kubectl.

The server runs for the whole session. It is reset before each test module, and
each test has a namespace of its own, so that tests can share it.
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
    options = Options(crds=[CRONTABS], users={"reader": ["readers"], "nobody": []})
    with LiveServer(options, directory=tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="module")
def server(live: LiveServer) -> LiveServer:
    """Reset the server to its state after start."""
    live.reset()
    return live


@pytest.fixture
def namespace(server: LiveServer) -> str:
    name = f"test-{next(_numbers)}"
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
async def connections_end(server: LiveServer) -> AsyncIterator[None]:
    """Wait until the clients of an event loop have disconnected, before the loop ends."""
    before = server.connections  # of synchronous clients, which have no loop to wait for
    yield
    async with asyncio.timeout(120):
        while server.connections > before:  # noqa: ASYNC110  (the other side is another thread)
            await asyncio.sleep(0.005)
    await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of running kubectl."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the decoded output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
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
        # The hidden completion command must be the first word.
        return [str(self.program), args[0], "--namespace", self.namespace, *args[1:]]

    @property
    def env(self) -> dict[str, str]:
        """Return an environment without the user's variables."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            **self.environment,
        }

    def attempt(self, *args: str, stdin: str | None = None, timeout_s: float = 120) -> Outcome:
        """Run kubectl; any exit code is accepted."""
        done = run_program(
            self.command(*args),
            env=self.env,
            input=stdin if stdin is not None else "",
            timeout=timeout_s,
            cwd=self.home,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __call__(self, *args: str, stdin: str | None = None) -> Outcome:
        """Run kubectl, which must succeed."""
        outcome = self.attempt(*args, stdin=stdin)
        assert outcome.code == 0, f"kubectl {' '.join(args)}: {outcome.err}{outcome.out}"
        return outcome

    def start(self, *args: str) -> Program[str]:
        """Start kubectl in the background, with a pipe for its output."""
        return start_program(self.command(*args), env=self.env, stderr=PIPE)

    def as_user(self, kubeconfig: Path) -> "Kubectl":
        """Return a copy with another kubeconfig."""
        return Kubectl(self.program, kubeconfig, self.namespace, self.home, self.environment)

    def with_environment(self, **variables: str) -> "Kubectl":
        """Return a copy with additional variables."""
        return Kubectl(
            self.program, self.kubeconfig, self.namespace, self.home, self.environment | variables
        )


@pytest.fixture(scope="session")
def _kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # kubectl caches discovery below HOME; sharing the cache saves requests.
    return tmp_path_factory.mktemp("kubectl-home")


@pytest.fixture
def k(kubectl: Path, server: LiveServer, namespace: str, _kubectl_home: Path) -> Kubectl:
    """Return kubectl as the administrator, in the namespace of the test."""
    return Kubectl(kubectl, server.kubeconfig, namespace, _kubectl_home)


def manifest(*objects: dict[str, Any]) -> str:
    """Encode objects as a manifest."""
    return yaml.safe_dump_all(objects)
