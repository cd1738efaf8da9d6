# SPDX-License-Identifier: Apache-2.0
"""The daemon's own controllers on a store that several servers share.

Controllers that only touch objects run on one server, elected by their Leases. Those of App, Lima
and containers run on every machine: their Leases carry the name of the machine, and their client
sees and writes only objects of that machine (`rdd.runtime.machine_binding`).

Admission configurations are objects, so all servers have the same ones. Their URL names no server
and resolves nowhere: each server calls its own handlers, and one without the controllers rejects
the writes that they would have to check.
"""

import socket

from rdd.client import Client
from rdd.controllers import catalog
from rdd.daemon.managers.discovery import EMBEDDED
from rdd.daemon.managers.elected import LEASE_S, RENEW_S
from rdd.instance import Instance
from rdd.runtime import InProcessHost, Ownership
from rdd.runtime.machine_binding import MachineTransport
from rdd.runtime.webhooks import EndpointRegistry

_WEBHOOK_ADDRESS, _WEBHOOK_PATH = "in-process.rdd.invalid", "shared"


class SharedStore:
    """How the controllers of one server work beside those of others."""

    def __init__(self, instance: Instance, machine: str) -> None:
        self.machine = machine
        self._identity = f"{EMBEDDED}-{instance.name}-{socket.gethostname()}".lower()

    def ownership(self, client: Client) -> Ownership:
        """Return the claims of this server: elected, or of its machine."""
        return Ownership(
            client,
            self._identity,
            lease_s=LEASE_S,
            renew_s=RENEW_S,
            compares_clocks=False,
            lease_of=self._lease_of,
        )

    def client(self, client: Client) -> Client:
        """Return the client of the controllers."""
        if not self.machine:
            return client
        return Client(MachineTransport(client.transport, self.machine), user_agent="rdd")

    @staticmethod
    def host(endpoints: EndpointRegistry) -> InProcessHost:
        """Return the admission handlers."""
        return InProcessHost(endpoints, address=_WEBHOOK_ADDRESS, path=_WEBHOOK_PATH)

    def _lease_of(self, controller: str) -> str:
        entry = catalog.CONTROLLERS.get(controller)
        if self.machine and entry is not None and entry.is_of_machine:
            return f"{controller}.{self.machine}"
        return controller
