# SPDX-License-Identifier: Apache-2.0
"""Leases for keys with a time to live.

A lease costs etcd a transaction and memory, and Events arrive in bursts with the same time to
live. So keys written within a short time share a lease, as in kube-apiserver: it lives a little
longer than the first of them asked for, and the keys expire together. Nothing is renewed.
"""

import asyncio
import math
import time
from dataclasses import dataclass

from rdd.grpc.messages import Message, field
from rdd.store.etcd import requests
from rdd.store.etcd.client import EtcdClient

_SHARED_FRACTION = 0.05
_LONGEST_SHARED_S = 60.0
_KEYS_PER_LEASE = 1_000


@dataclass(slots=True)
class _Lease:
    id: int
    until_s: float
    """Keys written later get another lease."""
    keys: int = 0


class LeasePool:
    """The leases that new keys may share, by time to live."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self._leases: dict[int, _Lease] = {}
        self._granting = asyncio.Lock()

    async def lease(self, ttl_s: float) -> int:
        """Return a lease that ends about `ttl_s` from now. Raises Unavailable, GrpcError."""
        ttl = max(1, math.ceil(ttl_s))
        async with self._granting:
            found = self._leases.get(ttl)
            if found is None or found.keys >= _KEYS_PER_LEASE or time.monotonic() > found.until_s:
                shared_s = min(ttl * _SHARED_FRACTION, _LONGEST_SHARED_S)
                answer = await self._client.write(
                    requests.LEASE_GRANT, field(1, ttl + math.floor(shared_s))
                )
                found = _Lease(Message(answer).signed(2), time.monotonic() + shared_s)
                self._leases[ttl] = found
            found.keys += 1
            return found.id
