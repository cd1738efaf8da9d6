# SPDX-License-Identifier: Apache-2.0
"""A real process that SIGSTOP suspends beyond its lease, and that then resumes."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.programs import start_program

from rdd.apiserver.http.request import AnyResponse, Request
from rdd.client import Client
from rdd.client.https import HttpsTransport
from rdd.client.resources import CONFIG_MAPS
from rdd.runtime import Ownership
from rdd.testing import LiveServer

PROGRAM = Path(__file__).with_name("frozen_program.py")

Write = tuple[str, int]
"""The owner of a write and the status of the response."""


async def test_rejects_all_writes_of_a_suspended_process(
    apiserver: LiveServer,
) -> None:
    writes: list[Write] = []

    async def record(request: Request, handle: Callable[[Request], object]) -> AnyResponse:
        answer: AnyResponse = await handle(request)  # type: ignore[misc]
        writes.append((request.headers.get("X-Rdd-Owner", ""), answer.status))
        return answer

    apiserver.faults.add(record, None, verb=("patch", "update"), resource="configmaps")
    metadata = {"name": "target", "namespace": "default", "labels": {"target": ""}}
    apiserver.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    command = [sys.executable, str(PROGRAM), str(apiserver.kubeconfig)]
    with start_program(command) as program:
        (line,) = await asyncio.to_thread(program.read_until)
        identity = line.strip()
        await _until(lambda: len(writes) > 5)
        os.kill(program.pid, signal.SIGSTOP)
        owner, status = writes[-1]
        _, holder, epoch = owner.split("/")
        assert (holder, status) == (identity, 200)
        async with Client(HttpsTransport.from_file(apiserver.kubeconfig)) as client:
            ownership = Ownership(client, "heir")
            await ownership.start()
            claim = await ownership.wait_for("c")
            assert claim.epoch == int(epoch) + 1
            before = len(writes)
            own = ownership.client_for(claim)
            data = {"data": {"n": "heir"}}
            await own.patch(CONFIG_MAPS, "target", data, namespace="default")
            os.kill(program.pid, signal.SIGCONT)
            await _until(lambda: writes[before:].count((owner, 409)) > 5)
            found = await client.get(CONFIG_MAPS, "target", namespace="default")
            assert found["data"] == {"n": "heir"}
            assert {w for w in writes[before:] if w[0] == owner} == {(owner, 409)}
            await ownership.stop()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110  (another process makes it true)
            await asyncio.sleep(0.01)
