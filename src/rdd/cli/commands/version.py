# SPDX-License-Identifier: Apache-2.0
"""`rdd version` and `rdd --version[=raw]`.

A built wheel contains `rdd/_build.py` with the commit and its date
(scripts/hatch_build.py); a source checkout reports "unknown".
"""

import importlib
import os
import sys

import rdd
from rdd.cli.framework.types import Call

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names, which scripts compare


def run(call: Call) -> int:
    return show(call, "true")


def show(call: Call, form: str) -> int:
    """Print the version in a format of `--version=FORMAT`; unknown formats are echoed."""
    if form == "true":
        form = version()
    elif form == "raw":
        form = "\n".join(f"{key}: {value}" for key, value in details().items())
    call.out.write(form + "\n")
    return 0


def version() -> str:
    """Return the version of this rdd, which client and daemon compare."""
    return f"v{rdd.__version__}"


def details() -> dict[str, str]:
    """Return the version and build details.

    The keys are those of Kubernetes programs; `GoVersion` keeps its name because scripts
    read it, and contains the version of Python.
    """
    try:
        build = vars(importlib.import_module("rdd._build"))
    except ModuleNotFoundError:
        build = {}
    machine = os.uname().machine
    return {
        "Version": version(),
        "GitCommit": build.get("COMMIT", "unknown"),
        "BuildDate": build.get("DATE", "unknown"),
        "GoVersion": "python" + sys.version.split()[0],
        "Compiler": sys.implementation.name,
        "Platform": f"{sys.platform}/{_ARCHITECTURES.get(machine, machine)}",
    }
