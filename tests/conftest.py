# SPDX-License-Identifier: Apache-2.0
"""What every test can rely on: a clean environment and the real programs.

Real parts (kubectl, dockerd, qemu, shells) are asked for as fixtures. A missing
one fails the test under `make test` (RDD_REQUIRE_PARTS=1) and skips it with its
reason under `make test-quick`, so that a laptop without them is no obstacle and
a build machine without them is no false green.

Hypothesis runs more examples under `make soak` (RDD_SOAK=1). Tests that ask for `full` run
under `make test-full` (RDD_FULL=1) only: whole matrices of which `make test` runs a part.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings
from tests.programs import reset_signals

ROOT = Path(__file__).parent.parent
REQUIRE_PARTS = os.environ.get("RDD_REQUIRE_PARTS") == "1"
SOAK = os.environ.get("RDD_SOAK") == "1"
FULL = os.environ.get("RDD_FULL") == "1"

settings.register_profile("soak", max_examples=5_000, deadline=None)

# Where scripts/test-parts.sh puts programs it does not install system-wide, and
# where Debian puts daemons that are not on a user's PATH.
_EXTRA_PATH = (str(ROOT / ".cache" / "parts" / "usr" / "bin"), "/usr/sbin", "/sbin")

# What a developer's shell may carry and what would steer the programs under test.
_FOREIGN = ("RDD_", "KUBE", "DOCKER_", "LIMA_")


def pytest_configure(config: pytest.Config) -> None:
    """Give the whole session an environment without traces of the user's."""
    reset_signals()
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            del os.environ[name]
    os.environ["NO_COLOR"] = "1"
    # Started in the background or with nohup, this process has signals ignored that tests send
    # to programs, which would inherit that.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Otherwise pytest-asyncio makes a loop to restore after the first asynchronous test and
    # never closes it, which counts as a failure at the end.
    asyncio.set_event_loop(None)
    if not config.pluginmanager.has_plugin("rdd"):  # run from the source tree, not installed
        config.pluginmanager.import_plugin("rdd.testing.plugin")
    if SOAK:
        settings.load_profile("soak")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests run in any order, but for modules that say IN_ORDER: they tell the life of one thing.

    What takes a minute to make, such as a virtual machine, is shared by all tests of a module.
    """
    places: dict[object, list[int]] = {}
    for place, item in enumerate(items):
        module = getattr(item, "module", None)
        if getattr(module, "IN_ORDER", False):
            places.setdefault(module, []).append(place)
    for found in places.values():
        as_written = sorted(
            (items[place] for place in found), key=lambda item: item.location[1] or 0
        )
        for place, item in zip(found, as_written, strict=True):
            items[place] = item


@pytest.fixture(autouse=True, scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home directory of its own for the session: nothing may touch the user's."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    if before is not None:
        os.environ["HOME"] = before


@pytest.fixture(scope="session")
def soak() -> bool:
    """Whether to run long: `make soak` is looking for rare faults."""
    return SOAK


@pytest.fixture
def full() -> None:
    """For tests that take too long for every day."""
    if not FULL:
        pytest.skip("a part of the full matrix (`make test-full` runs it)")


def _find_part(name: str) -> Path:
    path = os.pathsep.join([os.environ.get("PATH", ""), *_EXTRA_PATH])
    found = shutil.which(name, path=path)
    if found is None:
        reason = f"real part missing: {name} (`make parts` installs it)"
        if REQUIRE_PARTS:
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(found)


@pytest.fixture(scope="session")
def real_part() -> Callable[[str], Path]:
    """Finds a real program by name; fails or skips the test when it is missing."""
    return _find_part


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """A real kubectl."""
    return _find_part("kubectl")


@pytest.fixture(scope="session")
def dockerd_path() -> Path:
    """A real Docker engine."""
    return _find_part("dockerd")


@pytest.fixture(scope="session")
def qemu_path() -> Path:
    """A real emulator."""
    return _find_part("qemu-system-x86_64")


@pytest.fixture(scope="session")
def guests() -> Path:
    """The guests that `make guest-image` builds: directories `small` and `debian`."""
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
    """A cache of images that all tests of a run share, also those of other workers."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return (base.parent if is_worker else base) / "guest-cache"


@pytest.fixture(scope="session")
def openssl_path() -> Path:
    """A real openssl, an independent reader of our certificates."""
    return _find_part("openssl")


@pytest.fixture(scope="session")
def rdd_script() -> Path:
    """The installed `rdd` executable of the environment that runs the tests."""
    script = Path(sys.executable).with_name("rdd")
    if not script.exists():
        pytest.fail(f"{script} is missing: install the package first (make setup)")
    return script


@pytest.fixture
def clean_environment(tmp_path: Path) -> Mapping[str, str]:
    """Variables for a child process: a PATH and an empty home, nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home), "PATH": os.environ["PATH"], "NO_COLOR": "1"}
