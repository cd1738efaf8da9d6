# SPDX-License-Identifier: Apache-2.0
"""The executable `rdd` (and `python -m rdd`).

Passes arguments, environment and streams of the process to the command line as values.
"""

import os
import sys

from rdd.host.interrupts import end_silently, run_interruptible

end_silently()  # a Ctrl-C while the modules below are imported


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # A script's own directory is first on the import path. If `rdd` is copied next to other
    # files, a `json.py` there must not be imported.
    if not sys.argv[0].endswith("__main__.py"):
        here = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - pathlib is slow to import
        if sys.path and sys.path[0] == here:
            del sys.path[0]

    from rdd.cli.framework.entry import run

    # A stream that the caller closed is None.
    stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - open until exit
    stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    return run_interruptible(lambda: run(sys.argv, os.environ, stdout=stdout, stderr=stderr))


if __name__ == "__main__":
    sys.exit(main())
