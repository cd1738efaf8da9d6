# SPDX-License-Identifier: Apache-2.0
"""Attack three members of etcd and two API servers under load, then check what clients saw.

    unshare --net --mount --pid --fork --kill-child --mount-proc \\
        python -m tests.etcd_attack.attack --etcd /usr/bin/etcd --dir DIR [--faults a,b]

Must run as root in namespaces of its own. Prints one line per fault and a summary as JSON; ends
with 1 and the evidence if a check fails. The clock of the second API server is an hour ahead.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import math
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.etcd_attack import checker
from tests.etcd_attack.checker import Change, Operation, violations, watch_problem
from tests.etcd_attack.cluster import CLIENT_PORT, Cluster
from tests.etcd_attack.faults import FAULTS, World
from tests.etcd_attack.servers import ServerUnderAttack
from tests.etcd_attack.workload import NAMESPACE, PATH, Clients, WatchSegment, config_map
from tests.programs import DEVNULL, Program, run_program, start_program

from rdd.apiserver.state import codec

NAMES = [f"object-{number}" for number in range(8)]
KEY = f"/rdd/attack/keys/registry/configmaps/{NAMESPACE}/"
SKEW_S = 3600


class Truth:
    """What etcd reports to its own client: every change of a ConfigMap, in order.

    etcdctl ends when there is no quorum; it is then started again behind the last change.
    """

    def __init__(self, cluster: Cluster, path: Path, stack: contextlib.ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._hosts = ",".join(f"{member.address}:{CLIENT_PORT}" for member in cluster.members)
        self._program = self._start(1)

    def _start(self, revision: int) -> Program[str]:
        log = self._stack.enter_context(self._path.open("ab"))
        command = ["etcdctl", f"--endpoints={self._hosts}", "watch", "--prefix", "--prev-kv"]
        return self._stack.enter_context(
            start_program(
                [*command, "--write-out=json", f"--rev={revision}", KEY],
                env={"ETCDCTL_API": "3", "PATH": os.environ["PATH"]},
                stdout=log,
                stderr=DEVNULL,
            )
        )

    async def follow(self) -> None:
        """Keep it running."""
        while True:
            await asyncio.sleep(0.2)
            if self._program.poll() is not None:
                changes = self.changes()
                self._program = self._start(changes[-1].revision + 1 if changes else 1)

    def changes(self) -> list[Change]:
        """Return all changes so far."""
        found = []
        for line in self._path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                found += [_change(event) for event in json.loads(line).get("Events") or ()]
        return found


def _change(event: Any) -> Change:
    kv, previous = event["kv"], event.get("prev_kv")
    name = base64.b64decode(kv["key"]).decode().rpartition("/")[2]
    if event.get("type") == 1:
        return Change("DELETED", name, kv["mod_revision"], _value(previous))
    return Change("MODIFIED" if previous else "ADDED", name, kv["mod_revision"], _value(kv))


def _value(kv: Any) -> str | None:
    found: str | None = codec.decode(base64.b64decode(kv["value"]))["data"].get("value")
    return found


async def attack(given: argparse.Namespace, stack: contextlib.ExitStack) -> dict[str, Any]:
    """Run all faults; return the summary. Raises AssertionError with the evidence."""
    base = Path(given.dir)
    cluster = Cluster(Path(given.etcd), base, stack)
    await asyncio.to_thread(cluster.leader)
    skew = base / "skew.so"
    source = Path(__file__).with_name("skew.c")
    run_program(["gcc", "-shared", "-fPIC", "-O1", "-o", str(skew), str(source)], check=True)
    ahead = {"LD_PRELOAD": str(skew), "SKEW_S": str(SKEW_S)}
    servers = [
        ServerUnderAttack(base / "home", "a", cluster, {}),
        ServerUnderAttack(base / "home", "b", cluster, ahead),
    ]
    for server in servers:
        await server.open_relays()
        stack.callback(server.stop)
        server.start()
        await asyncio.to_thread(server.wait_ready)
    clients = Clients(
        [server.endpoint for server in servers], given.seed, stale_reads=given.stale_reads
    )
    truth = Truth(cluster, base / "truth.json", stack)
    following = asyncio.create_task(truth.follow())
    segments: list[list[WatchSegment]] = [[], []]
    until: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await _certainly(clients, "/api/v1/namespaces", namespace)
    watching = [asyncio.create_task(clients.watch(found, until)) for found in segments]
    working = [
        *(asyncio.create_task(clients.write(NAMES)) for _ in range(3)),
        *(asyncio.create_task(clients.create(f"once-{n}")) for n in range(2)),
        asyncio.create_task(clients.lists()),
    ]
    world = World(cluster, servers)
    names = [name for _ in range(given.rounds) for name in given.faults.split(",")]
    random.Random(given.seed).shuffle(names)
    for name in names:
        began, before = time.monotonic(), len(clients.recording.operations)
        async with FAULTS[name](world):
            while True:
                await asyncio.sleep(given.hold_s)
                if len(clients.recording.operations) - before >= given.hold_operations:
                    break
        await _recovered(clients)
        done = len(clients.recording.operations) - before
        print(f"{name}: {done} operations, recovered {time.monotonic() - began:.1f} s", flush=True)
    clients.is_over = True
    await asyncio.gather(*working)
    until.set_result(await _certainly(clients, PATH, config_map("last", "last")))
    async with asyncio.timeout(90):
        await asyncio.gather(*watching)
        changes: list[Change] = []
        while not changes or changes[-1].revision < until.result():
            await asyncio.sleep(0.1)
            changes = truth.changes()
    following.cancel()
    clients.recording.operations = _settled(clients.recording.operations, changes)
    _check(clients, segments, changes)
    _check_planted(clients, segments, changes)
    return {
        "operations": len(clients.recording.operations),
        "created": len(clients.recording.created),
        "changes": len(changes),
        "resumptions": sum(s.resumptions for found in segments for s in found),
        "expired": sum(len(found) - 1 for found in segments),
        "answers": clients.recording.answers,
    }


async def _certainly(clients: Clients, path: str, body: Any) -> int:
    """Create an object; return its revision."""
    import aiohttp

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        async with asyncio.timeout(90):
            while True:
                status, found = await clients.call(session, "POST", path, body)
                if status == 409:
                    name = body["metadata"]["name"]
                    status, found = await clients.call(session, "GET", f"{path}/{name}")
                if status in (200, 201):
                    return int(found["metadata"]["resourceVersion"])
                await asyncio.sleep(0.1)


async def _recovered(clients: Clients) -> None:
    """Wait until both servers answer consistent reads again."""
    import aiohttp

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        async with asyncio.timeout(90):
            in_a_row = 0
            while in_a_row < 8:
                status, _ = await clients.call(session, "GET", f"{PATH}/none")
                in_a_row = in_a_row + 1 if status == 404 else 0
                if not in_a_row:
                    await asyncio.sleep(0.1)


def _check(clients: Clients, segments: list[list[WatchSegment]], truth: list[Change]) -> None:
    recording = clients.recording
    assert not recording.errors, recording.errors[:3]
    for key, ops in violations(recording.operations).items():
        shown = "\n".join(f"  {op}" for op in ops[-40:])
        raise AssertionError(f"the history of {key} is not linearizable:\n{shown}")
    for found in segments:
        for position, segment in enumerate(found):
            # A segment that ended with 410 is compared as far as it goes.
            is_last = position == len(found) - 1
            end = truth if is_last else [c for c in truth if c.revision <= segment.last]
            problem = watch_problem(end, segment.events, after=segment.after)
            assert not problem, f"a watch from {segment.after}: {problem}"
    problem = _creation_problem(recording.created, truth)
    assert not problem, problem


def _settled(operations: list[Operation], truth: list[Change]) -> list[Operation]:
    """Replace unknown outcomes by what etcd did: a value identifies its write.

    An unknown write took effect at some time after its start. Deletions stay unknown.
    """
    stored = {(change.name, change.value) for change in truth}
    found = []
    for op in operations:
        if op.outcome == checker.UNKNOWN and op.kind != checker.DELETE:
            if (op.key, op.value) not in stored:
                continue
            op = replace(op, outcome=checker.OK, end=math.inf)
        found.append(op)
    return found


def _creation_problem(created: dict[str, str], truth: list[Change]) -> str:
    """Return which object was not created exactly once; empty if all were."""
    for name, value in created.items():
        events = [change for change in truth if change.name == name]
        if len(events) != 1 or events[0].type != "ADDED" or events[0].value != value:
            return f"{name} was created with {value}, but etcd has {events}"
    return ""


def _check_planted(
    clients: Clients, segments: list[list[WatchSegment]], truth: list[Change]
) -> None:
    """Plant a fault of every class in what was recorded: each must be found."""
    operations = clients.recording.operations
    end = max(op.end for op in operations if op.end < math.inf) + 1
    updated = next(
        op
        for op in reversed(operations)
        if op.kind == checker.UPDATE and op.outcome == checker.OK and op.end < math.inf
    )
    stale = Operation(updated.key, checker.READ, checker.OK, end, end + 1, updated.expected)
    assert violations([*operations, stale]), "a planted stale read is not found"
    lost = replace(updated, value="lost")  # two writers replaced the same state
    assert violations([*operations, lost]), "a planted lost update is not found"
    segment = segments[0][-1]
    events = segment.events
    middle = len(events) // 2
    for planted in (events[:middle] + events[middle + 1 :], events[: middle + 1] + events[middle:]):
        assert watch_problem(truth, planted, after=segment.after), "a planted event is not found"
    name = next(iter(clients.recording.created))
    twice = [*truth, *(change for change in truth if change.name == name)]
    assert _creation_problem(clients.recording.created, twice), "a second create is not found"


def main() -> int:
    parser = argparse.ArgumentParser(prog="attack")
    parser.add_argument("--etcd", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--hold-s", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--hold-operations", type=int, default=0, help="keep a fault for so many operations"
    )
    parser.add_argument("--stale-reads", action="store_true", help="plant a fault: read rv=0")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        try:
            print(json.dumps(asyncio.run(attack(given, stack))))
        except AssertionError as error:
            print(f"FAILED: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
