# SPDX-License-Identifier: Apache-2.0
"""`rdd kubectl …`: kubectl with the user's kubeconfig.

Runs the real kubectl if one is installed (never a link to rdd), otherwise the built-in
client. RDD_KUBECTL overrides the choice: `builtin`, or the path of a kubectl. `rdd ctl`
chooses the same way, with another kubeconfig.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.exec_tool import become, find, is_rdd
from rdd.cli.framework.types import Call

BUILT_IN = "builtin"


def run(call: Call) -> int:
    return run_kubectl(call, call.environment.variables)


def run_kubectl(call: Call, variables: Mapping[str, str]) -> int:
    """Run kubectl with the arguments of the call in the given environment."""
    path = choose(variables.get("RDD_KUBECTL", ""), call.environment.search_path)
    if path is not None:
        become(call, path, "kubectl", variables)
    from rdd.kubectl.main import run_client
    from rdd.kubectl.session import Streams

    return run_client(call.args, variables, Streams(call.out, sys.stderr, sys.stdin))


def choose(override: str, search_path: tuple[str, ...]) -> Path | None:
    """Return the kubectl to run; None for the built-in one. Raises CommandError."""
    if override == BUILT_IN:
        return None
    if not override:
        return find("kubectl", search_path)
    path = Path(override)
    allowed = f"it must be {BUILT_IN!r} or the absolute path of a kubectl"
    if not path.is_absolute() or not path.is_file() or not os.access(path, os.X_OK):
        raise CommandError(f"RDD_KUBECTL is {quote(override)}; {allowed}")
    if is_rdd(path):
        raise CommandError(f"RDD_KUBECTL is {quote(override)}, which is rdd itself; {allowed}")
    return path
