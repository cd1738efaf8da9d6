# SPDX-License-Identifier: Apache-2.0
"""`rdd yq …`: run the user's yq.

Two programs have this name. Scripts for rdd are written for mikefarah/yq; the other one
(kislyuk/yq) is a wrapper of jq with jq's syntax, in which the same expressions fail or mean
something else. It prints its bare version, `yq 3.4.3`, and is refused.
"""

import re
from pathlib import Path

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.exec_tool import become, find
from rdd.cli.framework.types import Call
from rdd.host.errors import HostError

_PROBE_S = 10.0
_is_jq_wrapper = re.compile(r"yq \d").match


def run(call: Call) -> int:
    path = find("yq", call.environment.search_path)
    if path is None:
        raise CommandError(
            "no yq found on PATH (links to rdd do not count); "
            "rdd does not contain one; install yq (https://github.com/mikefarah/yq)"
        )
    version = _version(path, call)
    if _is_jq_wrapper(version):
        raise CommandError(
            f"{quote(str(path))} is a wrapper of jq with jq's syntax ({version}); "
            "install yq from https://github.com/mikefarah/yq and put it first on PATH"
        )
    become(call, path, "yq", call.environment.variables)


def _version(path: Path, call: Call) -> str:
    """Return the first line of `yq --version`; empty if it fails, the real call shows why."""
    from rdd.host.commands import run_blocking

    variables = call.environment.variables
    try:
        done = run_blocking(path, "--version", timeout_s=_PROBE_S, environment=variables)
    except HostError:
        return ""
    return next(iter((done.output or done.errors).splitlines()), "").strip()
