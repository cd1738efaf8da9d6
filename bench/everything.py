# SPDX-License-Identifier: Apache-2.0
"""The program of `make bench`: all measurements, then the report.

    python -m bench.everything [--quick]

Takes about 6 minutes; with --quick about one, with rough figures that are only printed.
"""

import argparse
import sys

from bench import apiserver, desktop, report, start, startup


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description="measure everything and report")
    parser.add_argument("--quick", action="store_true", help="short runs, rough figures")
    given = parser.parse_args()
    arguments = ["--quick"] if given.quick else []
    is_slow = startup.main()
    apiserver.main(arguments)
    start.main(arguments)
    desktop.main(arguments)
    return report.main([] if given.quick else ["--publish"]) or is_slow


if __name__ == "__main__":
    sys.exit(main())
