# SPDX-License-Identifier: Apache-2.0
"""Probes the API of k3s and its nodes.

The type of a failure matters. A refused connection or an error response is definite: the
API is not available. A timeout is ambiguous: a host that swaps or sleeps is slow, and the
cluster may respond a moment later.

The server is verified with the authority in k3s.yaml, so another program on the same port
is never mistaken for the cluster.
"""

import asyncio
import enum
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from rdd.client import Call, Reply, Unreachable
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.host.own_address import CAN_BIND, OWN_ADDRESS
from rdd.runtime import is_true

TIMEOUT_S = 3.0
"""The timeout of one attempt."""


class Health(enum.Enum):
    """The outcome of an attempt."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"  # an error response
    UNREACHABLE = "unreachable"  # no server, or another program
    AMBIGUOUS = "ambiguous"  # a timeout


async def health_of(connection: ConnectionConfig, *, timeout_s: float = TIMEOUT_S) -> Health:
    """Return the outcome of `GET /healthz`."""
    try:
        reply = await _get(connection, "/healthz", timeout_s)
    except TimeoutError:
        return Health.AMBIGUOUS
    except Unreachable as error:
        is_timeout = isinstance(error.__cause__, TimeoutError)
        return Health.AMBIGUOUS if is_timeout else Health.UNREACHABLE
    except (OSError, KubeconfigError):  # an authority or a certificate that cannot be used
        return Health.UNREACHABLE
    return Health.HEALTHY if reply.status == 200 else Health.UNHEALTHY


async def missing_node(connection: ConnectionConfig, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return why no node is ready; empty if one is."""
    try:
        reply = await _get(connection, "/api/v1/nodes", timeout_s)
    except TimeoutError:
        return "Cannot list nodes: timeout"
    except (OSError, KubeconfigError) as error:
        return f"Cannot list nodes: {error}"
    if reply.status != 200:
        return f"Cannot list nodes: HTTP {reply.status}"
    try:
        nodes: Sequence[Any] = orjson.loads(reply.body)["items"] or ()
        if not nodes:
            return "No node has registered yet"
        is_ready = any(is_true((n.get("status") or {}).get("conditions"), "Ready") for n in nodes)
    except (orjson.JSONDecodeError, LookupError, AttributeError, TypeError):
        return "Cannot list nodes: the response is not a list"
    return "" if is_ready else "No node is Ready yet"


async def _get(connection: ConnectionConfig, path: str, timeout_s: float) -> Reply:
    from rdd.client.https import HttpsTransport  # with aiohttp, which only a cluster needs

    # The port is forwarded: this request is no activity of a client.
    is_local = CAN_BIND and urlsplit(connection.server).hostname == "127.0.0.1"
    transport = HttpsTransport(connection, local_address=OWN_ADDRESS if is_local else "")
    try:
        async with asyncio.timeout(timeout_s):
            return await transport.request(Call("GET", path, {}, {}))
    finally:
        await transport.close()
