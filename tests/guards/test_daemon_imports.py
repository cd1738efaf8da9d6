# SPDX-License-Identifier: Apache-2.0
"""The daemon does not load at its start what only some instances ever need.

aiohttp (clients of webhooks, clusters and downloads) costs 80 ms and 10 MiB, cryptography 50 ms
and 11 MiB.
"""

import sys

from tests.programs import run_program

_LAZY = ("aiohttp", "cryptography", "h2", "isal", "zoneinfo", "rdd.toolbox.unpacking")
_CODE = """
import sys
from rdd.controllers import catalog
from rdd.daemon import control_plane, serve, stages
from rdd.daemon.managers import embedded, passthrough_backends
catalog.preload([entry.name for entry in catalog.ENTRIES], catalog.ENTRIES)
sys.stdout.write(' '.join(sys.modules))
"""


def test_daemon_with_all_controllers_imports_only_what_it_needs() -> None:
    loaded = run_program([sys.executable, "-c", _CODE], check=True).stdout.split()
    assert "rdd.controllers.app.kubernetes.reconciler" in loaded
    assert [name for name in _LAZY if name in loaded] == []
