# SPDX-License-Identifier: Apache-2.0
"""A control plane whose objects are in etcd (`--store etcd://…`).

The owner written below the prefix names the instance and its machine, so that a second control
plane cannot use the same objects by mistake. Several on purpose (`shared=true`) may run the
controllers that touch objects only. App, LimaVM and containers belong to one machine, and a second
daemon would delete the first one's: their controllers need `--machine`, which binds their objects.
"""

import getpass
import logging
import re
import socket
from collections.abc import Callable, Collection

from rdd.api import names
from rdd.apiserver.admission.machine_binding import machine_of
from rdd.apiserver.components import Core
from rdd.controllers import catalog
from rdd.daemon.service.errors import ServiceError
from rdd.instance import Instance
from rdd.store.contract import StoreError
from rdd.store.etcd.address import EtcdAddress, InvalidAddress, parse_address
from rdd.store.etcd.ownership import SHARED_OWNER
from rdd.store.etcd.store import EtcdStore

log = logging.getLogger("rdd.daemon")

_SINGLETON_GROUPS = frozenset({catalog.APP, catalog.CONTAINERS})
"""Groups of controllers that have objects with fixed names."""
_is_machine = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?").fullmatch


def check_address(text: str) -> EtcdAddress:
    """Parse the address of a store. Raises ServiceError."""
    try:
        return parse_address(text)
    except InvalidAddress as error:
        raise ServiceError(str(error)) from error


async def copy_store(
    instance: Instance, *, source: str, target: str, progress: Callable[[int, int], None]
) -> tuple[int, str]:
    """Copy the database of an instance to etcd or back; return the number of keys and the place.

    Exactly one of `source` and `target` is an address. Raises ServiceError.
    """
    from rdd.store.etcd.copying import copy_to_etcd, copy_to_sqlite

    address = check_address(source or target)
    owner = owner_name(instance, address)
    database = instance.database
    try:
        if source:
            return await copy_to_sqlite(address, database, owner=owner), str(database)
        return await copy_to_etcd(database, address, owner=owner, progress=progress), str(address)
    except (InvalidAddress, StoreError) as error:
        raise ServiceError(str(error)) from error


def check_machine(machine: str, store: str) -> None:
    """Check the name of the machine. Raises ServiceError."""
    if not machine:
        return
    if not store or not check_address(store).is_shared:
        raise ServiceError("--machine needs a shared store (--store etcd://…?shared=true)")
    if not _is_machine(machine):
        raise ServiceError(
            f'invalid --machine "{machine}"; allowed: up to 40 lower case letters, digits and -'
        )


async def open_etcd_store(
    instance: Instance, text: str, controllers: Collection[str], machine: str = ""
) -> EtcdStore:
    """Open the store at an address. Raises ServiceError."""
    address = check_address(text)
    try:
        refused = _machine_controllers(controllers)
        if address.is_shared and refused and not machine:
            raise ServiceError(
                f"the store {address} is shared, and these controllers manage things of one "
                f"machine: {', '.join(refused)}; name the machine (--machine NAME) or start "
                "without them (--controllers=)"
            )
        return await EtcdStore.open(address, owner=owner_name(instance, address))
    except (InvalidAddress, StoreError) as error:
        raise ServiceError(f"cannot use the store: {error}") from error


def _machine_controllers(selected: Collection[str]) -> list[str]:
    return [e.name for e in catalog.ENTRIES if e.name in selected and e.is_of_machine]


def foreign_singleton(core: Core, machine: str) -> str:
    """Return why the controllers of App and containers cannot run on a machine, empty if they can.

    App, ContainerNamespace and Diagnostic have fixed names, so a store has them for one machine.
    """
    for resource in core.registry.all():
        if resource.namespaced or resource.group not in names.MACHINE_GROUPS:
            continue
        for entry in resource.cache.entries():
            owner = machine_of(entry.decode())
            if owner and owner != machine:
                return f'{resource.kind} "{entry.name}" belongs to the machine "{owner}"'
    return ""


def check_singletons(core: Core, controllers: Collection[str], machine: str) -> None:
    """Refuse controllers whose objects belong to another machine. Raises ServiceError."""
    refused = [
        name
        for name in _machine_controllers(controllers)
        if catalog.CONTROLLERS[name].group in _SINGLETON_GROUPS
    ]
    if machine and refused and (why := foreign_singleton(core, machine)):
        raise ServiceError(
            f"{why}, and a store has one App; start with --controllers=lima on this machine"
        )


def owner_name(instance: Instance, address: EtcdAddress) -> str:
    """Return what names a control plane in `PREFIX/meta/owner`."""
    if address.is_shared:
        return SHARED_OWNER
    return f'instance "{instance.suffix}" of {getpass.getuser()} on {socket.gethostname()}'
