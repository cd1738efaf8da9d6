# SPDX-License-Identifier: Apache-2.0
"""The crash machine: `python -m tests.crash.machine --rounds 30 --guests 3`.

Prints one line per round, with the seed that repeats it:

    python -m tests.crash.machine --replay 1007 --form api

Exits with 1 after a round with violations. Needs root (mounts, limits of other processes) and runs
best in a network namespace of its own (scripts/offline.py).
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.crash.machine.rounds import run_round
from tests.programs import reset_signals

ROOT = Path(__file__).parents[3]
PARTS = ROOT / ".cache" / "parts" / "usr" / "bin"


def forms(rounds: int, guests: int, engines: int) -> list[str]:
    """Return the form of each round: guests and engines spread among those of the API alone."""
    found = ["api"] * rounds
    for number in range(min(guests, rounds)):
        found[number * rounds // guests] = "guest"
    free = [number for number, form in enumerate(found) if form == "api"]
    for number in range(min(engines, len(free))):
        form = "containerd" if number % 3 == 2 else "moby"
        found[free[(2 * number + 1) * len(free) // (2 * engines)]] = form
    return found


def main() -> int:
    """Run the rounds that the command line requests."""
    parser = argparse.ArgumentParser(prog="tests.crash.machine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--guests", type=int, default=3, help="rounds with a guest in qemu")
    parser.add_argument("--engines", type=int, default=4, help="rounds with a container engine")
    parser.add_argument("--seed", type=int, default=1_000, help="seed of the first round")
    parser.add_argument("--replay", type=int, help="run only the round with this seed")
    parser.add_argument("--form", default="api", help="form of the replayed round")
    parser.add_argument("--seconds", type=float, default=0, help="begin no round after this time")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("the crash machine needs root: it mounts disks and limits processes\n")
        return 2
    reset_signals()
    # A build machine that gives up sends SIGTERM; the round must still clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for name in [name for name in os.environ if name.startswith(("RDD_", "KUBE", "DOCKER_"))]:
        del os.environ[name]
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin{os.pathsep}/sbin{os.pathsep}{PARTS}"
    script = Path(sys.executable).with_name("rdd")
    kubectl = Path(shutil.which("kubectl") or "kubectl")

    if options.replay is not None:
        plan = [(options.replay, options.form)]
    else:
        listed = forms(options.rounds, options.guests, options.engines)
        plan = [(options.seed + number, form) for number, form in enumerate(listed)]
    began, failed, done = time.monotonic(), 0, 0
    for seed, form in plan:
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        result = asyncio.run(run_round(seed, form, script, kubectl))
        done += 1
        failed += bool(result.violations)
        sys.stdout.write(
            f"round {done}/{len(plan)} --replay {seed} --form {form}: "
            f"{', '.join(result.faults)}; {result.acknowledged} writes, {result.events} events, "
            f"{result.seconds:.1f} s: {'FAILED' if result.violations else 'ok'}\n"
        )
        for line in result.violations[:60]:
            sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{done} rounds, {failed} with violations, {time.monotonic() - began:.0f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
