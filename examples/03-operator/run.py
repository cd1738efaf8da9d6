# SPDX-License-Identifier: Apache-2.0
"""Starts an API server and the operator (a process of its own), and plays the user."""

import asyncio
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

from rdd.api import errors
from rdd.apiserver.auth import certificates
from rdd.client import ApiResource, Client
from rdd.client.https import HttpsTransport
from rdd.client.resources import CONFIG_MAPS, LEASES
from rdd.testing import LiveServer

SHOUTS = ApiResource("demo.example.com", "v1alpha1", "shouts", "Shout")


async def play(kubeconfig: Path) -> None:
    async with Client(HttpsTransport.from_file(kubeconfig)) as client:
        shout = {"metadata": {"name": "hello", "namespace": "default"}, "spec": {"text": "hello"}}
        await client.create(SHOUTS, shout)
        print("the ConfigMap says:", await text(client, unlike=""))
        await client.patch(SHOUTS, "hello", {"spec": {"times": 2}}, namespace="default")
        print("twice:", await text(client, unlike="HELLO"))
        await client.delete(CONFIG_MAPS, "hello", namespace="default")
        print("deleted and back:", await text(client, unlike=""))
        try:
            await client.patch(SHOUTS, "hello", {"spec": {"times": 9}}, namespace="default")
        except errors.ApiError as error:
            print(f"{error.code}: {error.message}")
        lease = await client.get(LEASES, "controller-shouter", namespace="rdd-system")
        print("owned by a shouter:", lease["spec"]["holderIdentity"].startswith("shouter-"))


async def text(client: Client, *, unlike: str) -> str:
    """The text of the ConfigMap as soon as there is another one."""
    events = client.list_and_watch(
        CONFIG_MAPS, namespace="default", field_selector="metadata.name=hello"
    )
    async with aclosing(events):
        async for event in events:
            found = str(event.object.get("data", {}).get("text", ""))
            if event.type in ("ADDED", "MODIFIED") and found != unlike:
                return found
    return ""


with LiveServer() as server:
    pair = certificates.ensure_serving(server.directory, "shouter")
    arguments = [str(server.kubeconfig), str(pair.certificate_path), str(pair.key_path)]
    command = [sys.executable, "-m", "shouter", *arguments]
    here = Path(__file__).parent
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        print("operator:", program.stdout.readline().strip())
        second = subprocess.run(command, cwd=here, capture_output=True, text=True)
        print("a second one:", second.stderr.strip().split(" is run by ")[0])
        asyncio.run(play(server.kubeconfig))
        program.terminate()
    print("exit code:", program.returncode)
