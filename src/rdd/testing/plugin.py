# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: fixtures with a real API server.

    apiserver             on a port, with a kubeconfig; one per session (and
                          xdist worker), reset for every test
    apiserver_kubeconfig  the path of that kubeconfig, also set in KUBECONFIG
    apiserver_inprocess   in the event loop of the test, without a socket; a new
                          one per test (requires pytest-asyncio or anyio)
    apiserver_options     the initial content of the servers; override it, or
                          list CRDs as `rdd_crds` in the pytest configuration

The server is imported on first use: pytest loads the plugin into every test run
of every project that has rdd installed.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rdd.testing import LiveServer, Options, Server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the plugin."""
    parser.addini(
        "rdd_crds",
        "files and directories with CustomResourceDefinitions for the `apiserver` fixtures, "
        "relative to the root directory",
        type="paths",
        default=[],
    )


@pytest.fixture(scope="session")
def apiserver_options(pytestconfig: pytest.Config) -> "Options":
    """The initial content of the servers of this session; override it to change it."""
    from rdd.testing import Options

    return Options(crds=list(pytestconfig.getini("rdd_crds")))


@pytest.fixture(scope="session")
def _apiservers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[["Options"], "LiveServer"]]:
    """The servers of the session, one for each Options."""
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
    """A real API server on a port, in its initial state."""
    live = _apiservers(apiserver_options)
    live.reset()
    return live


@pytest.fixture
def apiserver_kubeconfig(apiserver: "LiveServer", monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kubeconfig of `apiserver`; KUBECONFIG is set during the test."""
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    return apiserver.kubeconfig


async def _apiserver_inprocess(apiserver_options: "Options") -> AsyncIterator["Server"]:
    """A real API server in the event loop of the test, without a socket."""
    from rdd.testing import Server

    async with Server(apiserver_options) as server:
        yield server


def _async_fixture() -> Any:
    """Return the decorator of async fixtures: that of pytest-asyncio; anyio needs none."""
    try:
        import pytest_asyncio
    except ImportError:
        return pytest.fixture
    return pytest_asyncio.fixture


apiserver_inprocess = _async_fixture()(_apiserver_inprocess)
