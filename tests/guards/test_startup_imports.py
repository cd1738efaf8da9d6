# SPDX-License-Identifier: Apache-2.0
"""A call of `rdd` imports only the modules listed here: every call pays for them.

A module that is missing from the list below is either not needed at start-up
(import it in the function that needs it) or worth its cost (measure it with
`make bench`, then add it here).
"""

import sys

import pytest
from tests.programs import run_program

# The modules that the interpreter loads by itself differ between builds; they are subtracted.
_LIST = "import sys; sys.stderr.write('\\n'.join(sys.modules))"
_RUN = "import sys; sys.argv[:] = {argv!r}; from rdd.__main__ import main; main(); " + _LIST

_OURS = {
    "rdd",
    "rdd.__main__",
    "rdd.base",
    "rdd.base.gotext",
    "rdd.base.pflag",
    "rdd.cli",
    "rdd.cli.commands",
    "rdd.cli.commands.app",
    "rdd.cli.commands.engine",
    "rdd.cli.commands.limavm",
    "rdd.cli.commands.service",
    "rdd.cli.framework",
    "rdd.cli.commands.app.declarations",
    "rdd.cli.commands.cache",
    "rdd.cli.commands.package",
    "rdd.cli.commands.package.declarations",
    "rdd.cli.commands.snapshot",
    "rdd.cli.commands.snapshot.declarations",
    "rdd.cli.commands.cache.declarations",
    "rdd.cli.commands.disk",
    "rdd.cli.commands.disk.declarations",
    "rdd.cli.framework.dispatch",
    "rdd.cli.commands.engine.declarations",
    "rdd.cli.framework.entry",
    "rdd.cli.framework.environment",
    "rdd.cli.framework.errors",
    "rdd.cli.framework.flags",
    "rdd.cli.commands.limavm.declarations",
    "rdd.cli.framework.logline",
    "rdd.cli.commands.profile",
    "rdd.cli.commands.profile.declarations",
    "rdd.cli.framework.program",
    "rdd.cli.commands.service.declarations",
    "rdd.cli.commands.declarations",
    "rdd.cli.commands.tools",
    "rdd.cli.commands.tools.declarations",
    "rdd.cli.commands.trash",
    "rdd.cli.commands.trash.declarations",
    "rdd.cli.framework.types",
    "rdd.cli.framework.usual_flags",
    "rdd.host",
    "rdd.host.errors",
    "rdd.host.interrupts",
    "signal",  # 0.3 ms: Ctrl-C must never print a traceback, and start-up is when it is pressed
}
# By top-level name: how a standard module is split inside differs between Python versions.
_TYPING = {"collections", "contextlib", "copyreg", "enum", "functools", "importlib", "keyword"}
_TYPING |= {"operator", "re", "reprlib", "types", "typing", "warnings"}
_PATHLIB = {"errno", "fnmatch", "glob", "ipaddress", "ntpath", "pathlib", "urllib"}
_DATACLASSES = {"ast", "copy", "dataclasses", "dis", "inspect", "linecache", "opcode", "token"}
_DATACLASSES |= {"tokenize", "weakref"}

ALLOWED = {
    "version": {*_OURS, "rdd.cli.commands.version", *_TYPING},
    "svc paths": {
        *_OURS,
        "rdd.cli.commands.service.paths",
        "rdd.instance",
        *_TYPING,
        *_PATHLIB,
        *_DATACLASSES,
    },
}


def loaded(code: str) -> set[str]:
    """The modules a program ends with: ours in full, others by top-level name."""
    done = run_program([sys.executable, "-c", code], check=True)
    return {
        name if name.startswith("rdd.") else name.split(".")[0] for name in done.stderr.split("\n")
    }


@pytest.mark.parametrize("command", sorted(ALLOWED))
def test_call_imports_only_what_it_needs(command: str) -> None:
    own = loaded(_RUN.format(argv=["rdd", *command.split()])) - loaded(_LIST)
    # Private modules (most of them C) come and go with Python versions and cost next to nothing.
    own = {name for name in own if name[0] != "_" and name not in sys.builtin_module_names}
    assert own - ALLOWED[command] == set()
