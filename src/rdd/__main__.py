# SPDX-License-Identifier: Apache-2.0
"""The executable `rdd` (and `python -m rdd`).

Hands the real process (arguments, environment, streams) to the command line,
which takes all of them as values.
"""

import os
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # A script's own directory comes first on the import path. When `rdd` is
    # copied next to other people's files, a `json.py` there must not be ours.
    if not sys.argv[0].endswith("__main__.py"):
        here = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - before pathlib is paid for
        if sys.path and sys.path[0] == here:
            del sys.path[0]

    from rdd.cli.framework.entry import run

    # A stream that the caller closed is None.
    return run(
        sys.argv,
        os.environ,
        stdout=sys.stdout or open(os.devnull, "w"),  # noqa: PTH123 - lives as long as we
        stderr=sys.stderr or open(os.devnull, "w"),  # noqa: PTH123
    )


if __name__ == "__main__":
    sys.exit(main())
