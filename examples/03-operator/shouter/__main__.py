# SPDX-License-Identifier: Apache-2.0
"""The program: `python -m shouter KUBECONFIG CERTIFICATE KEY`. SIGTERM stops it."""

import asyncio
import signal
import socket
import ssl
import sys
from pathlib import Path

from rdd.client import Client
from rdd.client.https import HttpsTransport
from rdd.runtime import HttpsHost, Manager, ManagerOptions, Ownership, OwnershipError

from .controller import shouter


def webhook_host(certificate: Path, key: Path) -> HttpsHost:
    """Listen on a free port with a self-signed certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    sock = socket.create_server(("127.0.0.1", 0))
    return HttpsHost(sock, tls, ca_bundle=certificate.read_text())


async def main(kubeconfig: Path, certificate: Path, key: Path) -> int:
    """Run the operator until SIGTERM, or until the API server is unreachable."""
    async with Client(HttpsTransport.from_file(kubeconfig), user_agent="shouter") as client:
        ownership = Ownership(client, "shouter")
        manager = Manager(
            "shouter",
            client,
            [shouter()],
            ownership=ownership,
            host=webhook_host(certificate, key),
            options=ManagerOptions(if_held="fail"),
        )
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        try:
            await manager.start()
        except OwnershipError as error:
            print(f"not started: {error}", file=sys.stderr)
            return 1
        print("ready", flush=True)
        async with asyncio.TaskGroup() as group:
            ends = [group.create_task(stop.wait()), group.create_task(ownership.server_lost.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
        await manager.stop()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*map(Path, sys.argv[1:4]))))
