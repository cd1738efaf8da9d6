# SPDX-License-Identifier: Apache-2.0
"""A host agent imports little: there is one per machine, and a start of a machine waits for it.

A forbidden module is either not needed (import it in the function that needs it) or worth its
cost: measure, then remove it from the list.
"""

import sys

import pytest
from tests.programs import run_program

_LIST = "import sys; sys.stderr.write('\\n'.join(m for m in sys.modules if sys.modules[m]))"
_LOAD = (
    "import sys; sys.argv = ['agent']; from rdd.vm.agent.__main__ import main; main(); "
    "import rdd.vm.drivers.host.driver, rdd.vm.drivers.host.root_engine, rdd.vm.drivers.host; "
)

FORBIDDEN = {"aiohttp", "yaml", "ssl", "_ssl", "hashlib", "logging.config", "orjson", "uvloop"}
FORBIDDEN |= {"argparse", "http", "email", "multiprocessing", "sqlite3", "importlib.metadata"}
OURS = ("rdd.base", "rdd.host", "rdd.instance", "rdd.vm")
LARGEST_KIB = 30 << 10


def loaded(code: str) -> set[str]:
    done = run_program([sys.executable, "-c", code], check=True)
    return set(done.stderr.splitlines())


def test_agent_loads_nothing_heavy() -> None:
    own = loaded(_LOAD + _LIST) - loaded(_LIST)
    assert {name for name in own if name in FORBIDDEN or name.split(".")[0] in FORBIDDEN} == set()


def test_agent_loads_only_machines_and_the_operating_system() -> None:
    ours = {name for name in loaded(_LOAD + _LIST) if name.startswith("rdd.")}
    assert {name for name in ours if not name.startswith(OURS)} == set()


@pytest.mark.skipif(sys.platform != "linux", reason="the size is read in /proc")
def test_agent_is_small() -> None:
    show = "sys.stderr.write('\\nsize ' + open('/proc/self/status').read().split('VmRSS:')[1])"
    (line,) = [line for line in loaded(_LOAD + show) if line.startswith("size")]
    assert int(line.split()[1]) <= LARGEST_KIB
