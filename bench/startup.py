# SPDX-License-Identifier: Apache-2.0
"""Duration of a call of `rdd`, as a multiple of an empty Python program.

The absolute time depends on the machine, so the target is a ratio: at most 6 for `rdd version`
and `rdd service paths`. Runs alternate between the programs, so that changes of the load
affect all of them.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 6.0
ROUNDS = 41

PYTHON = sys.executable
RDD = str(Path(PYTHON).with_name("rdd"))
COMMANDS = {
    "python -c pass": [PYTHON, "-c", "pass"],
    "rdd version": [RDD, "version"],
    "rdd service paths": [RDD, "svc", "paths"],
    "rdd service paths -o json": [RDD, "svc", "paths", "-o", "json"],
    "rdd --help": [RDD, "--help"],
}


def once(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            times[name].append(once(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["python -c pass"]
    print("| command | median ms | × python -c pass |")
    print("|---|---|---|")
    for name, median in medians.items():
        print(f"| `{name}` | {median:.1f} | {median / base:.1f} |")
    slow = [name for name, median in medians.items() if median > LIMIT * base]
    if slow:
        print(f"above the limit of {LIMIT:g}: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
