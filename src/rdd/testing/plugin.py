# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: fixtures that give a test a real API server.

    apiserver             on a port, with a kubeconfig; one per session (and
                          xdist worker), reset for every test
    apiserver_kubeconfig  the path of that kubeconfig, also put into KUBECONFIG
    apiserver_inprocess   in the test's own event loop, without a socket; a new
                          one per test (needs pytest-asyncio or anyio)
    apiserver_options     what the servers have from the start; override it, or
                          name CRDs with `rdd_crds` in the pytest configuration

Nothing of the server is imported before a test asks for it: the plugin is
loaded into every test run of every project that has rdd installed.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rdd.testing import LiveServer, Options, Server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Settings of the plugin."""
    parser.addini(
        "rdd_crds",
        "files and directories with CustomResourceDefinitions for the `apiserver` fixtures, "
        "relative to the root directory",
        type="paths",
        default=[],
    )


@pytest.fixture(scope="session")
def apiserver_options(pytestconfig: pytest.Config) -> "Options":
    """What the servers of this session have from the start; override to choose."""
    from rdd.testing import Options

    return Options(crds=list(pytestconfig.getini("rdd_crds")))


@pytest.fixture(scope="session")
def _apiservers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[["Options"], "LiveServer"]]:
    """The servers of the session: one for each Options that a module or directory chose."""
    with contextlib.ExitStack() as stack:
        running: list[tuple[Options, LiveServer]] = []

        def get(options: "Options") -> "LiveServer":
            from rdd.testing import LiveServer

            for known, live in running:
                if known is options:
                    return live
            directory = tmp_path_factory.mktemp("apiserver")
            live = stack.enter_context(LiveServer(options, directory=directory))
            running.append((options, live))
            return live

        yield get


@pytest.fixture
def apiserver(
    apiserver_options: "Options", _apiservers: Callable[["Options"], "LiveServer"]
) -> "LiveServer":
    """A real API server on a port, as it was after its start."""
    live = _apiservers(apiserver_options)
    live.reset()
    return live


@pytest.fixture
def apiserver_kubeconfig(apiserver: "LiveServer", monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kubeconfig of `apiserver`; KUBECONFIG names it while the test runs."""
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    return apiserver.kubeconfig


async def _apiserver_inprocess(apiserver_options: "Options") -> AsyncIterator["Server"]:
    """A real API server in the test's event loop, without a socket."""
    from rdd.testing import Server

    async with Server(apiserver_options) as server:
        yield server


def _async_fixture() -> Any:
    """What marks an async fixture: pytest-asyncio's mark; anyio runs plain ones."""
    try:
        import pytest_asyncio
    except ImportError:
        return pytest.fixture
    return pytest_asyncio.fixture


apiserver_inprocess = _async_fixture()(_apiserver_inprocess)
