# SPDX-License-Identifier: Apache-2.0
"""One round: a new instance, load, some faults, quiet, and all checks.

The seed of a round determines its form, its faults and the choices of its clients; the moments
at which they meet are the machine's. A failed round prints its seed, which repeats it.
"""

import asyncio
import contextlib
import random
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.machine import checks
from tests.crash.machine.faults import FAULTS
from tests.crash.machine.machines import Machine
from tests.crash.machine.plane import ENGINE_MIB, HOME_MIB, Broken, Plane, plane
from tests.crash.machine.recorder import History, Seen, state_of, story
from tests.crash.machine.remains import Traces
from tests.crash.machine.watchers import Watcher
from tests.crash.machine.wire import Connection, Cut, cancel
from tests.crash.machine.workload import NAMESPACE, PATHS, Client, Janitor

CLIENTS = 6
WATCHERS = {"configmaps": 3, "secrets": 2, "configmapreplicasets": 1}
WITHIN_S = 120.0
END = "zz-end"
OF_THE_MACHINE = "machine"
"""A fault of the processes of engine or guest, which machines.py chooses."""


@dataclass(slots=True)
class Result:
    """What a round did, and what it found."""

    faults: list[str] = field(default_factory=list)
    acknowledged: int = 0
    events: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


async def run_round(seed: int, form: str, script: Path, kubectl: Path) -> Result:
    """Run a round of a form: `api`, `moby`, `containerd` or `guest`."""
    began = time.monotonic()
    result = Result()
    choose = random.Random(seed)
    size = HOME_MIB if form == "api" else ENGINE_MIB
    planned = [
        OF_THE_MACHINE if form != "api" and choose.random() < 0.6 else choose.choice(list(FAULTS))
        for _ in range(choose.randrange(1, 4))
    ]
    async with plane(script, kubectl, size_mib=size, with_clock="clock" in planned) as made:
        machine = None if form == "api" else Machine(form, made)
        directories = [made.machine(machine.name)] if machine else []
        before = Traces.collect(made.root, directories)
        history = History()
        try:
            await _attack(made, machine, planned, choose, seed, history, result)
            if machine is not None:
                await machine.delete()
            await _delete(made)
            async with asyncio.timeout(WITHIN_S):
                while left := before.left_by(  # noqa: ASYNC110  (the kernel)
                    Traces.collect(made.root, directories)
                ):
                    await asyncio.sleep(0.2)
        except Broken as error:
            result.violations.append(str(error))
        except TimeoutError:
            result.violations.append(f"left behind: {left}")
        if not made.tracebacks_allowed:
            result.violations += _tracebacks(made)
    result.acknowledged, result.events = history.acknowledged(), history.events()
    result.seconds = time.monotonic() - began
    return result


async def _attack(
    made: Plane,
    machine: Machine | None,
    planned: list[str],
    choose: random.Random,
    seed: int,
    history: History,
    result: Result,
) -> None:
    if machine is not None:
        machine.prepare()
    await made.start()
    await _create_namespace(made)
    if machine is not None:
        await machine.start()
    clients = [Client(n, seed, made.kubeconfig, history) for n in range(CLIENTS)]
    janitor = Janitor(CLIENTS, seed, made.kubeconfig, history)
    watchers = [
        Watcher(kind, number, seed, made.kubeconfig, history)
        for kind, count in WATCHERS.items()
        for number in range(count)
    ]
    writing = [asyncio.create_task(one.run()) for one in (*clients, janitor)]
    watching = [asyncio.create_task(one.run()) for one in watchers]
    try:
        for name in planned:
            await asyncio.sleep(0.2 + choose.random())
            if machine is not None and name == OF_THE_MACHINE:
                result.faults.append(await machine.fault(choose))
            else:
                result.faults.append(name)
                await FAULTS[name](made, choose)
            if machine is not None:
                await machine.converged()
        await asyncio.sleep(0.3)
        await cancel(*writing)
        final = await _settle(made, janitor, history, watchers)
    finally:
        await cancel(*writing, *watching)
    for violation in checks.violations(history, final):
        result.violations.append(violation)
        key = re.search(r"key='([^']*)'", violation)
        result.violations += story(history, key[1]) if key else []


async def _create_namespace(made: Plane) -> None:
    connection = Connection(made.kubeconfig)
    body = {"metadata": {"name": NAMESPACE}}
    status, answer = await connection.request("POST", "/api/v1/namespaces", body)
    connection.close()
    if status != 201:
        raise Broken(f"the namespace was not created: {answer}")


async def _settle(
    made: Plane, janitor: Janitor, history: History, watchers: list[Watcher]
) -> dict[str, Seen]:
    """Wait until everything has converged; return the final objects."""
    janitor.connection = Connection(made.kubeconfig)
    problem = "no quiet state"
    try:
        async with asyncio.timeout(3 * WITHIN_S):
            await _quiet(janitor)
            ends = [await janitor.create(kind, END) for kind in PATHS]
            objects = await _quiet(janitor)
            problem = "a watcher does not catch up"
            final = {
                state.key: state
                for kind, found in objects.items()
                for state in (state_of(kind, obj) for obj in found)
            }
            newest = {
                kind: int(end["metadata"]["resourceVersion"])
                for kind, end in zip(PATHS, ends, strict=True)
            }
            for state in final.values():
                kind = state.key.partition("/")[0]
                newest[kind] = max(newest[kind], state.revision)
            for watcher in watchers:
                problem = f"{watcher.name} does not catch up"
                await watcher.until(newest[watcher.kind])
    except (TimeoutError, Cut) as error:
        raise Broken(f"not converged within {WITHIN_S:g} s: {problem} {error!r}") from None
    finally:
        janitor.connection.close()
    return final


async def _quiet(janitor: Janitor) -> dict[str, list[Any]]:
    """Wait for two equal lists, some time apart, in which everything has converged."""
    problem, before = "nothing answered", None
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                with contextlib.suppress(Cut):
                    await janitor.sweep()
                    found = await _list(janitor.connection)
                    problem = unsettled(found)
                    if not problem and found == before:
                        return found
                    before = found
                await asyncio.sleep(0.25)
    except TimeoutError:
        raise Broken(f"not converged within {WITHIN_S:g} s: {problem}") from None


async def _list(connection: Connection) -> dict[str, list[Any]]:
    found = {}
    for kind, path in PATHS.items():
        status, answer = await connection.request("GET", path)
        if status != 200:
            raise Cut(str(status))
        found[kind] = answer["items"]
    return found


def unsettled(objects: dict[str, list[Any]]) -> str:
    """Return what has not converged yet: replicas, deletions, dependents of ended owners."""
    uids = {obj["metadata"]["uid"] for found in objects.values() for obj in found}
    replicas: dict[str, int] = {}
    for found in objects.values():
        for obj in found:
            metadata = obj["metadata"]
            if "deletionTimestamp" in metadata:
                return f"{metadata['name']} is not deleted: {metadata.get('finalizers')}"
            for owner in metadata.get("ownerReferences") or ():
                replicas[owner["uid"]] = replicas.get(owner["uid"], 0) + 1
                if owner["uid"] not in uids:
                    return f"{metadata['name']} outlives its owner {owner['name']}"
    for obj in objects["configmapreplicasets"]:
        wanted = (obj.get("spec") or {}).get("replicas")
        wanted = 1 if wanted is None else wanted
        found_count = replicas.get(obj["metadata"]["uid"], 0)
        reported = (obj.get("status") or {}).get("readyReplicas")
        if (found_count, reported) != (wanted, wanted):
            name = obj["metadata"]["name"]
            return f"{name} has {found_count} and reports {reported} of {wanted} replicas"
    return ""


async def _delete(made: Plane) -> None:
    """Delete the namespace, check leases, and delete the instance."""
    connection = Connection(made.kubeconfig)
    path = f"/api/v1/namespaces/{NAMESPACE}"
    try:
        async with asyncio.timeout(WITHIN_S):
            janitor = Janitor(CLIENTS, 0, made.kubeconfig, History())
            await connection.request("DELETE", path)
            while (await connection.request("GET", path))[0] != 404:
                await janitor.sweep()
                await asyncio.sleep(0.1)
            janitor.connection.close()
        _, leases = await connection.request("GET", "/apis/coordination.k8s.io/v1/leases")
        holders = {(lease.get("spec") or {}).get("holderIdentity") for lease in leases["items"]}
        if len(holders) > 1:
            raise Broken(f"leases of former daemons are left: {holders}")
    except (TimeoutError, Cut) as error:
        raise Broken(f"the namespace is not deleted: {error!r}") from None
    finally:
        connection.close()
    done = await made.rdd("svc", "delete")
    if done.code != 0:
        raise Broken(f"svc delete failed: {done.err}")


def _tracebacks(made: Plane) -> list[str]:
    return [
        f"a traceback in the log: {text[text.index('Traceback') - 300 :][:2500]}"
        for text in made.log_texts()
        if "Traceback" in text
    ]
