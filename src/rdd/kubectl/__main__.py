# SPDX-License-Identifier: Apache-2.0
"""`python -m rdd.kubectl`: the built-in kubectl without the command line of rdd.

Unlike `rdd kubectl` it never runs a kubectl from PATH.
"""

import os
import sys

from rdd.host.interrupts import end_silently, run_interruptible

end_silently()  # a Ctrl-C while the modules below are imported

_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main() -> int:
    """Run the arguments of this process as kubectl and return the exit code."""
    return run_interruptible(_run)


def _run() -> int:
    from rdd.kubectl.main import run_client
    from rdd.kubectl.session import Streams

    try:
        code = run_client(sys.argv[1:], os.environ, Streams(sys.stdout, sys.stderr, sys.stdin))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
