# SPDX-License-Identifier: Apache-2.0
"""The claim of a prefix, and what the cluster must be able to do.

`PREFIX/meta/owner` names the control plane that uses the prefix. A second one with another
name is refused: two control planes with one set of objects would delete each other's machines.
Servers that share a prefix on purpose use the owner SHARED_OWNER and `shared=true`.
"""

from rdd.grpc.errors import GrpcError, StatusCode
from rdd.grpc.messages import Message, field
from rdd.store.contract import StoreInUse, Unavailable
from rdd.store.etcd import requests
from rdd.store.etcd.client import OLDEST, EtcdClient

SHARED_OWNER = "several control planes"


async def check_version(client: EtcdClient) -> None:
    """Refuse a cluster that is too old. Raises Unavailable."""
    try:
        version = await client.version()
    except GrpcError as error:
        if error.code == StatusCode.PERMISSION_DENIED:
            return  # only releases that are newer ask for the role root here
        raise Unavailable(f"{client.address}: {error.message}") from error
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts[:2] if part.isdigit())
    if numbers < OLDEST:
        raise Unavailable(
            f"{client.address}: etcd {version or 'of an unknown version'} is too old; "
            f"{'.'.join(map(str, OLDEST))} or newer is needed"
        )


async def claim_prefix(client: EtcdClient, owner: str) -> None:
    """Write the owner of a prefix, or check that it is this one. Raises StoreInUse, Unavailable."""
    key = _key(client)
    message = requests.txn(
        [requests.is_at(key, 0)],
        [requests.put(key, owner.encode())],
        [field(1, requests.range_request(key))],
    )
    answer = await _write(client, message)
    if answer.integer(2):
        return
    values = answer.messages(3)[0].message(1).messages(2)
    found = values[0].text(5) if values else ""
    if found != owner:
        raise StoreInUse(f'{client.address} belongs to "{found}", not to "{owner}"; {_fix(found)}')


def _fix(owner: str) -> str:
    if owner == SHARED_OWNER:
        return "add ?shared=true to share it, or choose another prefix"
    return "choose another prefix"


async def owner_of(client: EtcdClient) -> str:
    """Return the owner of a prefix, empty if it has none. Raises Unavailable."""
    try:
        answer = Message(await client.read(requests.RANGE, requests.range_request(_key(client))))
    except GrpcError as error:
        raise Unavailable(f"{client.address}: {error.message}") from error
    values = answer.messages(2)
    return values[0].text(5) if values else ""


async def set_owner(client: EtcdClient, owner: str) -> None:
    """Give a prefix another owner. Raises Unavailable."""
    await _write(client, requests.txn([], [requests.put(_key(client), owner.encode())], []))


async def _write(client: EtcdClient, message: bytes) -> Message:
    try:
        return Message(await client.write(requests.TXN, message))
    except GrpcError as error:
        raise Unavailable(f"{client.address}: {error.message}") from error


def _key(client: EtcdClient) -> bytes:
    return f"{client.address.prefix}/meta/owner".encode()
