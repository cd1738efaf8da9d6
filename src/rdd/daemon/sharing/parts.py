# SPDX-License-Identifier: Apache-2.0
"""What changes in a control plane that shares its store, or serves other machines.

`Sharing` has the parts that the stages of `rdd.daemon.control_plane` ask for. Without a shared
store and the flags it returns nothing and imports nothing.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.apiserver.admission.chain import Plugin
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.server import ApiServer
from rdd.client import Client
from rdd.controllers.builtin.manager import BuiltinControllers
from rdd.daemon.options import ServeOptions
from rdd.daemon.service.errors import ServiceError
from rdd.instance import Instance
from rdd.store.contract import Store

if TYPE_CHECKING:
    from rdd.daemon.managers.elected import ElectedControllers
    from rdd.daemon.managers.shared_store import SharedStore
    from rdd.daemon.sharing.identity_follower import IdentityFollower

log = logging.getLogger("rdd.daemon")


class Sharing:
    """The flags of one control plane that concern other servers."""

    def __init__(self, instance: Instance, options: ServeOptions) -> None:
        """Check the flags. Raises ServiceError."""
        self._instance = instance
        self._machine = options.machine
        self._store = options.store
        self._identity = Path(options.identity_dir) if options.identity_dir else None
        self._files = options.tls_cert_file, options.tls_private_key_file
        self._listen_at: tuple[str, int] | None = None
        self._follower: IdentityFollower | None = None
        if options.machine and not options.store:
            raise ServiceError("--machine needs a shared store (--store etcd://…?shared=true)")
        if options.listen_address or any(self._files):
            from rdd.daemon.sharing.listening import check_flags

            self._listen_at = check_flags(options.listen_address, *self._files)

    async def open_store(self, names: Sequence[str]) -> Store:
        """Open the store in etcd for these controllers. Raises ServiceError."""
        from rdd.daemon.sharing import etcd

        etcd.check_machine(self._machine, self._store)
        return await etcd.open_etcd_store(self._instance, self._store, names, self._machine)

    def use_identity(self, ensure: Callable[[], None]) -> None:
        """Create or read keys and tokens with `ensure`, those of --identity-dir if it is set."""
        if self._identity is None:
            ensure()
            return
        from rdd.daemon.sharing.identity import use_identity

        use_identity(self._identity, self._instance, ensure)

    def change_identity(self, change: Callable[[], None]) -> None:
        """Change keys or tokens with `change`, those of --identity-dir if it is set."""
        if self._identity is None:
            change()
            return
        from rdd.daemon.sharing.identity import change_identity

        change_identity(self._identity, self._instance, change)

    def follow_identity(
        self, client: Client, store: Store, use: Callable[[], Awaitable[None]]
    ) -> None:
        """Call `use` when another server has changed the shared identity."""
        if self._identity is None or not store.is_shared:
            return
        from rdd.daemon.sharing.identity_follower import IdentityFollower

        self._follower = IdentityFollower(client, self._identity, self._instance, use)
        self._follower.start()

    def announce_identity(self) -> None:
        """Let the other servers use the changed identity."""
        if self._follower is not None:
            self._follower.announce()

    async def unfollow_identity(self) -> None:
        """Stop following."""
        if self._follower is not None:
            await self._follower.stop()

    def plugins(self, store: Store) -> Sequence[Plugin]:
        """Return the admission plugins of a shared store."""
        if not store.is_shared:
            return ()
        from rdd.apiserver.admission.machine_binding import MachineBinding

        return (MachineBinding(self._machine),)

    def host_names(self) -> set[str]:
        """Return the names by which clients beyond loopback address the server."""
        if self._listen_at is None:
            return set()
        from rdd.daemon.sharing.listening import host_names

        return {self._listen_at[0], *host_names(self._files[0])}

    async def listen(
        self, http: HttpServer, client_ca_file: str, serving: certificates.Issued
    ) -> None:
        """Serve beyond loopback, if the flags ask for it. Raises ServiceError."""
        if self._listen_at is None:
            return
        from rdd.daemon import connection
        from rdd.daemon.sharing import listening

        tls = connection.tls_context(serving, client_ca_file)
        listening.use_certificate(tls, *self._files)
        await http.listen(listening.listen(*self._listen_at), tls)
        log.info("the API is served on %s:%d, too", *self._listen_at)

    def controllers(
        self, server: ApiServer, store: Store, names: Sequence[str]
    ) -> "SharedStore | None":
        """Return how own controllers work beside those of other servers. Raises ServiceError."""
        if not store.is_shared:
            return None
        from rdd.daemon.managers.shared_store import SharedStore
        from rdd.daemon.sharing import etcd

        etcd.check_singletons(server.core, names, self._machine)
        return SharedStore(self._instance, self._machine)

    def elected(
        self,
        client: Client,
        make: Callable[[Client], BuiltinControllers],
        on_failure: Callable[[BaseException], None],
    ) -> "ElectedControllers":
        """Return the built-in controllers, which run on one server at a time."""
        from rdd.daemon.managers.elected import ElectedControllers
        from rdd.daemon.managers.machines import MachineMonitor

        return ElectedControllers(
            client,
            f"{self._instance.name}-{socket.gethostname()}".lower(),
            make=lambda fenced: (make(fenced), MachineMonitor(fenced)),
            on_failure=on_failure,
        )
