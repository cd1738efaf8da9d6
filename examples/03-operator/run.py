# SPDX-License-Identifier: Apache-2.0
"""Start an API server and the operator in a separate process, and act as the user."""

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


async def act(kubeconfig: Path) -> None:
    async with Client(HttpsTransport.from_file(kubeconfig)) as client:
        shout = {"metadata": {"name": "hello", "namespace": "default"}, "spec": {"text": "hello"}}
        await client.create(SHOUTS, shout)
        print("ConfigMap:", await text(client, unlike=""))
        await client.patch(SHOUTS, "hello", {"spec": {"times": 2}}, namespace="default")
        print("after the change:", await text(client, unlike="HELLO"))
        await client.delete(CONFIG_MAPS, "hello", namespace="default")
        print("recreated:", await text(client, unlike=""))
        try:
            await client.patch(SHOUTS, "hello", {"spec": {"times": 9}}, namespace="default")
        except errors.ApiError as error:
            print(f"{error.code}: {error.message}")
        lease = await client.get(LEASES, "controller-shouter", namespace="rdd-system")
        print("owned by a shouter:", lease["spec"]["holderIdentity"].startswith("shouter-"))


async def text(client: Client, *, unlike: str) -> str:
    """Wait until the text of the ConfigMap differs, and return it."""
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
        print("second operator:", second.stderr.strip().split(" is run by ")[0])
        asyncio.run(act(server.kubeconfig))
        program.terminate()
    print("exit code:", program.returncode)
