# SPDX-License-Identifier: Apache-2.0
"""Duration of the service commands, and cost of an idle daemon.

Each round uses a new home directory: start a new instance, stop, start again, start while it
runs, stop. Then the wake-ups and the memory of an idle daemon are read from /proc.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
IDLE_S = 10.0
RDD = str(Path(sys.executable).with_name("rdd"))
LIMITS_S = {"start, fresh instance": 1.2, "start, existing instance": 1.0, "stop": 0.5}


def timed(environment: dict[str, str], *words: str) -> float:
    started = time.perf_counter()
    subprocess.run([RDD, *words], env=environment, check=True, timeout=60)
    return time.perf_counter() - started


def switches(pid: int) -> int:
    """Return the number of wake-ups of all threads of a process."""
    total = 0
    for path in Path(f"/proc/{pid}/task").iterdir():
        for line in (path / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise LookupError("VmRSS")


def main() -> int:
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as home:
            environment = {"HOME": home, "PATH": os.environ["PATH"]}
            for name, command in (
                ("start, fresh instance", "start"),
                ("stop", "stop"),
                ("start, existing instance", "start"),
                ("start, running already", "start"),
                ("status", "status"),
                ("config", "config"),
                ("stop", "stop"),
            ):
                words = ("svc", command, "--log-level=error")
                if command in ("status", "config"):
                    begun = time.perf_counter()
                    subprocess.run([RDD, *words], env=environment, check=True, capture_output=True)
                    times.setdefault(name, []).append(time.perf_counter() - begun)
                else:
                    times.setdefault(name, []).append(timed(environment, *words))
    print("| command | median ms | limit ms |")
    print("|---|---|---|")
    for name, values in times.items():
        limit = f"{LIMITS_S[name] * 1000:.0f}" if name in LIMITS_S else ""
        print(f"| {name} | {statistics.median(values) * 1000:.0f} | {limit} |")
    idle()
    late = [n for n, limit in LIMITS_S.items() if statistics.median(times[n]) > limit]
    return 1 if late else 0


def idle() -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        timed(environment, "svc", "start")
        pid = int((Path(home) / ".local/share/rancher-desktop-2/rdd.pid").read_text())
        time.sleep(2)
        before = switches(pid)
        time.sleep(IDLE_S)
        rate = (switches(pid) - before) / IDLE_S
        print(f"\nidle: {rate:.1f} wake-ups/s (limit 2), {resident_mib(pid):.0f} MiB (limit 90)")
        timed(environment, "svc", "stop")


if __name__ == "__main__":
    sys.exit(main())
