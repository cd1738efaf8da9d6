# SPDX-License-Identifier: Apache-2.0
"""Fixtures and hooks of the whole suite: a clean environment, real programs, the order of tests.

Real parts (kubectl, dockerd, qemu, shells) are fixtures. A missing one fails the test under
`make test` (RDD_REQUIRE_PARTS=1) and skips it with its reason under `make test-quick`: a laptop
without them can run the rest, and a build machine without them is no false green.

Hypothesis runs more examples under `make soak` (RDD_SOAK=1).

`make test` distributes whole files to two workers. The slow ones start first, so that no worker
waits at the end for a long file of the other: tests/durations.txt has the seconds of the slow
files, and `make durations` measures them again.
"""

import asyncio
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.file_systems import mounted_xfs
from tests.programs import reset_signals

ROOT = Path(__file__).parent.parent
REQUIRE_PARTS = os.environ.get("RDD_REQUIRE_PARTS") == "1"
SOAK = os.environ.get("RDD_SOAK") == "1"
DURATIONS = ROOT / "tests" / "durations.txt"
SLOW_S = 5
"""Files that take longer are in tests/durations.txt."""

# On a busy machine, the time to generate or run an example is not a fault of the test.
_NO_TIMES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", _NO_TIMES)
settings.register_profile("soak", _NO_TIMES, max_examples=5_000)

# Where scripts/test-parts.sh puts programs that it does not install system-wide.
_PARTS = str(ROOT / ".cache" / "parts" / "usr" / "bin")

# Variables of a developer's shell that would change the programs under test.
_FOREIGN = ("RDD_", "KUBE", "DOCKER_", "LIMA_")
# Variables of the suite, which the workers of pytest-xdist inherit.
_OWN = {"RDD_REQUIRE_PARTS", "RDD_SOAK", "RDD_RECORD_DURATIONS"}


def pytest_configure(config: pytest.Config) -> None:
    """Remove the user's environment and inherited signal dispositions from the session."""
    reset_signals()
    for name in list(os.environ):
        if name.startswith(_FOREIGN) and name not in _OWN:
            del os.environ[name]
    os.environ["NO_COLOR"] = "1"
    # cron's PATH has no directory of daemons and root's tools, which tests and programs call.
    search_path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    search_path += [folder for folder in ("/usr/sbin", "/sbin") if folder not in search_path]
    os.environ["PATH"] = os.pathsep.join(search_path)
    # Otherwise pytest-asyncio creates a loop to restore after the first asynchronous test and
    # never closes it, which is an error at the end of the session.
    asyncio.set_event_loop(None)
    if not config.pluginmanager.has_plugin("rdd"):  # run from the source tree, not installed
        config.pluginmanager.import_plugin("rdd.testing.plugin")
    settings.load_profile("soak" if SOAK else "suite")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the slowest files; keep the written order in modules with IN_ORDER.

    Everything else runs in random order. The tests of an IN_ORDER module follow one object that
    takes long to create, such as a virtual machine, through its life.
    """
    recorded = _read_durations()
    items.sort(key=lambda item: -recorded.get(_file_of(item.nodeid), 0.0))
    positions: dict[object, list[int]] = {}
    for position, item in enumerate(items):
        module = getattr(item, "module", None)
        if getattr(module, "IN_ORDER", False):
            positions.setdefault(module, []).append(position)
    for found in positions.values():
        as_written = sorted(
            (items[position] for position in found), key=lambda item: item.location[1] or 0
        )
        for position, item in zip(found, as_written, strict=True):
            items[position] = item


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _read_durations() -> dict[str, float]:
    lines = DURATIONS.read_text().splitlines()
    return {path: float(seconds) for seconds, path in (line.split() for line in lines)}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write tests/durations.txt after `make durations`."""
    if os.environ.get("RDD_RECORD_DURATIONS") != "1":
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_file_of(report.nodeid)] += report.duration
    slow = sorted(((took, path) for path, took in seconds.items() if took >= SLOW_S), reverse=True)
    DURATIONS.write_text("".join(f"{took:.0f} {path}\n" for took, path in slow))


@pytest.fixture(autouse=True, scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the session a home directory of its own: no test may touch the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session")
def soak() -> bool:
    """Return whether to run long: `make soak` searches for rare faults."""
    return SOAK


def _find_part(name: str) -> Path:
    path = os.pathsep.join([os.environ.get("PATH", ""), _PARTS])
    found = shutil.which(name, path=path)
    if found is None:
        reason = f"real part missing: {name} (`make parts` installs it)"
        if REQUIRE_PARTS:
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(found)


@pytest.fixture(scope="session")
def real_part() -> Callable[[str], Path]:
    """Return a function that finds a program by name, and fails or skips the test without it."""
    return _find_part


@pytest.fixture
def xfs(tmp_path: Path, real_part: Callable[[str], Path]) -> Iterator[Path]:
    """Mount an empty xfs, which shares blocks between files."""
    yield from mounted_xfs(tmp_path, real_part)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    return _find_part("kubectl")


@pytest.fixture(scope="session")
def dockerd_path() -> Path:
    return _find_part("dockerd")


@pytest.fixture(scope="session")
def qemu_path() -> Path:
    return _find_part("qemu-system-x86_64")


@pytest.fixture(scope="session")
def newer_tools() -> Path:
    """Return the root of a newer docker.io, Compose and Buildx, which `make parts` unpacks."""
    found = ROOT / ".cache" / "parts" / "tools"
    if not (found / "complete").exists():
        reason = "real part missing: a newer docker.io (`make parts` fetches it)"
        if REQUIRE_PARTS:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def guests() -> Path:
    """Return the directory with the guests `small` and `debian` that `make guest-image` builds."""
    found = ROOT / ".cache" / "guest" / "current"
    if not (found / "packages").exists():
        reason = (
            "real part missing: the guests of virtual machines (`make guest-image` builds them)"
        )
        if REQUIRE_PARTS:
            pytest.fail(reason)
        pytest.skip(reason)
    return found.resolve()


@pytest.fixture(scope="session")
def guest_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of images that the tests of all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return (base.parent if is_worker else base) / "guest-cache"


@pytest.fixture(scope="session")
def openssl_path() -> Path:
    """Return openssl, an independent reader of our certificates."""
    return _find_part("openssl")


@pytest.fixture(scope="session")
def rdd_script() -> Path:
    """Return the installed `rdd` executable of the environment that runs the tests."""
    script = Path(sys.executable).with_name("rdd")
    if not script.exists():
        pytest.fail(f"{script} is missing: install the package first (make setup)")
    return script


@pytest.fixture
def clean_environment(tmp_path: Path) -> Mapping[str, str]:
    """Return variables for a child process: a PATH and an empty home, nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home), "PATH": os.environ["PATH"], "NO_COLOR": "1"}
