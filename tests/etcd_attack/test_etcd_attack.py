# SPDX-License-Identifier: Apache-2.0
"""Three members of etcd and two API servers under attack; `make soak` runs every fault for long."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.etcd_attack.faults import FAULTS
from tests.programs import CompletedProcess, run_program

ROOT = Path(__file__).parents[2]
SHORT = (
    "kill-leader",
    "pause-leader",
    "kill-majority",
    "partition-leader-outgoing",
    "cut-off-server-responses",
    "kill-server",
    "compact",
    "stalled-disk",
    "move-leader",
)
SOAK_ROUNDS = 15


@pytest.fixture
def attack(
    real_part: Callable[[str], Path], tmp_path: Path
) -> Callable[..., CompletedProcess[str]]:
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces, packet filters and mounts")

    def run(version: str, *words: str, timeout_s: float = 240) -> CompletedProcess[str]:
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command: list[str | Path] = [real_part("unshare"), *namespaces, sys.executable]
        command += ["-m", "tests.etcd_attack.attack", "--etcd", str(real_part(version))]
        return run_program(
            [*command, "--dir", str(tmp_path), *words],
            cwd=ROOT,
            env={"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "PYTHONPATH": "src:."},
            timeout=timeout_s,
        )

    return run


def summary(done: CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_is_lost_or_repeated_under_attack(
    attack: Callable[..., CompletedProcess[str]], soak: bool
) -> None:
    if soak:
        words = ["--rounds", str(SOAK_ROUNDS), "--seed", str(os.getpid())]
        found = summary(attack("etcd", *words, timeout_s=3000))
    else:
        found = summary(attack("etcd", "--faults", ",".join(SHORT), "--hold-s", "1.5"))
    assert found["operations"] and found["changes"] and found["created"]


@pytest.mark.timeout(3300)
def test_newer_etcd_under_attack(attack: Callable[..., CompletedProcess[str]], soak: bool) -> None:
    words = ["--rounds", str(SOAK_ROUNDS if soak else 1), "--hold-s", "1.5"]
    faults = ",".join(FAULTS) if soak else "kill-leader,partition-leader"
    assert summary(attack("etcd-3.5", *words, "--faults", faults, timeout_s=3000))["changes"]


def test_stale_reads_are_found(attack: Callable[..., CompletedProcess[str]]) -> None:
    """Planted: clients read `resourceVersion=0` while a server is cut off from etcd.

    A number of operations, not a time: on a busy machine few of them fit into a second.
    """
    words = ["--faults", "cut-off-server", "--rounds", "2", "--hold-operations", "150"]
    done = attack("etcd", "--stale-reads", *words)
    assert done.returncode == 1 and "is not linearizable" in done.stdout, done
