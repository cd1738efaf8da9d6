# SPDX-License-Identifier: Apache-2.0
"""What a call of `rdd` may import: every call pays for it.

A module that is missing from the list below is either not needed at start-up
(import it in the function that needs it) or worth its cost (measure it with
`make bench`, then add it here).
"""

import subprocess
import sys

import pytest

# What the interpreter loads by itself differs between builds; it is subtracted.
_LIST = "import sys; sys.stderr.write('\\n'.join(sys.modules))"
_RUN = "import sys; sys.argv[:] = {argv!r}; from rdd.__main__ import main; main(); " + _LIST

_OURS = {
    "rdd",
    "rdd.__main__",
    "rdd.cli",
    "rdd.cli.app_table",
    "rdd.cli.dispatch",
    "rdd.cli.engine_table",
    "rdd.cli.entry",
    "rdd.cli.environment",
    "rdd.cli.errors",
    "rdd.cli.flags",
    "rdd.cli.gotext",
    "rdd.cli.limavm_table",
    "rdd.cli.logline",
    "rdd.cli.program",
    "rdd.cli.service_table",
    "rdd.cli.table",
    "rdd.cli.types",
    "rdd.cli.usual_flags",
    "rdd.host",
    "rdd.host.errors",
}
# By top-level name: how a standard module is split inside differs between Python versions.
_TYPING = {"collections", "contextlib", "copyreg", "enum", "functools", "importlib", "keyword"}
_TYPING |= {"operator", "re", "reprlib", "types", "typing", "warnings"}
_PATHLIB = {"errno", "fnmatch", "glob", "ipaddress", "ntpath", "pathlib", "urllib"}
_DATACLASSES = {"ast", "copy", "dataclasses", "dis", "inspect", "linecache", "opcode", "token"}
_DATACLASSES |= {"tokenize", "weakref"}

ALLOWED = {
    "version": {*_OURS, "rdd.cli.version", *_TYPING},
    "svc paths": {*_OURS, "rdd.cli.svc_paths", "rdd.instance", *_TYPING, *_PATHLIB, *_DATACLASSES},
}


def loaded(code: str) -> set[str]:
    """The modules a program ends with: ours in full, others by top-level name."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {
        name if name.startswith("rdd.") else name.split(".")[0] for name in done.stderr.split("\n")
    }


@pytest.mark.parametrize("command", sorted(ALLOWED))
def test_call_imports_only_what_it_needs(command: str) -> None:
    own = loaded(_RUN.format(argv=["rdd", *command.split()])) - loaded(_LIST)
    # Private modules (most of them C) come and go with Python versions and cost next to nothing.
    own = {name for name in own if name[0] != "_" and name not in sys.builtin_module_names}
    assert own - ALLOWED[command] == set()
