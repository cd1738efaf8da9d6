# SPDX-License-Identifier: Apache-2.0
"""Fuzzing with a budget: `python -m tests.fuzz --seconds 120`.

Each target gets an equal share. Hypothesis mutates the inputs, with another seed per batch, and
shrinks what it finds; where atheris is installed, it takes half of the share, guided by coverage,
in a process of its own. A finding is printed as a Python literal; it becomes a regression test.
"""

import argparse
import importlib.util
import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

from tests.programs import run_program

BATCH = 200
GRACE_S = 120.0


def main() -> int:
    """Fuzz the targets that the command line requests."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first batch")
    parser.add_argument("--atheris", action="store_true", help="run one target with atheris, here")
    parser.add_argument("targets", nargs="*", help="default: all")
    options = parser.parse_args()
    if options.atheris:
        return _guided(options.targets[0], options.seconds)
    from tests.fuzz.catalog import TARGETS

    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        sys.stderr.write(f"unknown target: {', '.join(unknown)}; valid: {', '.join(TARGETS)}\n")
        return 2
    names = options.targets or list(TARGETS)
    has_atheris = importlib.util.find_spec("atheris") is not None
    share = options.seconds / len(names) / (2 if has_atheris else 1)
    logging.getLogger("rdd").propagate = False
    failed = 0
    for name in names:
        count, problem = _random(name, share, options.seed)
        guided = "" if not has_atheris or problem else _run_guided(name, share)
        verdict = "FAILED" if problem or guided else "ok"
        by = f"{count} inputs of hypothesis{', atheris' if has_atheris else ''}"
        sys.stdout.write(f"fuzz {name}: {by}, seed {options.seed}: {verdict}\n{problem}{guided}")
        sys.stdout.flush()
        failed += verdict == "FAILED"
    return 1 if failed else 0


def _random(name: str, seconds: float, first: int) -> tuple[int, str]:
    """Run batches of Hypothesis; return the number of inputs and the first finding."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from tests.fuzz.catalog import TARGETS
    from tests.fuzz.mutation import inputs

    target = TARGETS[name]
    count = 0
    latest = b""

    def attempt(data: bytes) -> None:
        nonlocal count, latest
        count += 1
        latest = data
        target.run(data)

    warnings.filterwarnings("ignore", "The recursion limit")  # CEL sets it
    until = time.monotonic() + seconds
    number = first
    while time.monotonic() < until:
        number += 1
        batch = settings(
            max_examples=BATCH if seconds > 5 else 50,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )(seed(number)(given(inputs(target))(attempt)))
        try:
            batch()
        except Exception:
            return count, f"  input {latest!r}\n{traceback.format_exc(limit=-6)}"
    return count, ""


def _run_guided(name: str, seconds: float) -> str:
    command = [sys.executable, "-m", "tests.fuzz", "--atheris", "--seconds", f"{seconds}", name]
    done = run_program(command, env=dict(os.environ), timeout=seconds + GRACE_S)
    return "" if done.returncode == 0 else f"{done.stdout[-1000:]}{done.stderr[-4000:]}\n"


def _guided(name: str, seconds: float) -> int:
    """Run a target with atheris, which ends the process."""
    import tempfile

    import atheris  # type: ignore[import-untyped, unused-ignore]

    with atheris.instrument_imports(include=["rdd"]):
        from tests.fuzz.catalog import TARGETS
    target = TARGETS[name]
    logging.getLogger("rdd").propagate = False
    with tempfile.TemporaryDirectory(prefix="rdd-fuzz-") as directory:
        for number, data in enumerate(target.seeds):
            Path(directory, str(number)).write_bytes(data)
        arguments = [f"-max_total_time={max(1, round(seconds))}", "-verbosity=0", "-timeout=60"]
        arguments += ["-max_len=4096", f"-artifact_prefix={directory}/", directory]
        atheris.Setup([sys.argv[0], *arguments], target.run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
