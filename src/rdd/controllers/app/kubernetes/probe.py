# SPDX-License-Identifier: Apache-2.0
"""Whether the API of k3s answers, and whether it has a node.

What a failed attempt means depends on its kind. A refused connection or an answer that is
no success is certain: the API is not there. No answer in time is not: a machine that swaps,
or sleeps, is slow, and the cluster is still there a moment later.

The server is checked against the authority in k3s.yaml, so a program of somebody else on
the same port is never taken for ours.
"""

import asyncio
import enum
from collections.abc import Sequence
from typing import Any

import orjson

from rdd.client import Call, Reply, Unreachable
from rdd.client.https import HttpsTransport
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.runtime import is_true

TIMEOUT_S = 3.0
"""For one attempt."""


class Health(enum.Enum):
    """What an attempt says about the API."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"  # it answers, but not with success
    UNREACHABLE = "unreachable"  # nobody, or somebody else, is there
    AMBIGUOUS = "ambiguous"  # no answer in time


async def health_of(connection: ConnectionConfig, *, timeout_s: float = TIMEOUT_S) -> Health:
    """What `GET /healthz` says."""
    try:
        reply = await _get(connection, "/healthz", timeout_s)
    except TimeoutError:
        return Health.AMBIGUOUS
    except Unreachable as error:
        is_late = isinstance(error.__cause__, TimeoutError)
        return Health.AMBIGUOUS if is_late else Health.UNREACHABLE
    except (OSError, KubeconfigError):  # an authority or a certificate that cannot be used
        return Health.UNREACHABLE
    return Health.HEALTHY if reply.status == 200 else Health.UNHEALTHY


async def missing_node(connection: ConnectionConfig, *, timeout_s: float = TIMEOUT_S) -> str:
    """Why no node is ready; empty if one is."""
    try:
        reply = await _get(connection, "/api/v1/nodes", timeout_s)
    except TimeoutError:
        return "Cannot list nodes: no answer in time"
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
        return "Cannot list nodes: the answer is no list"
    return "" if is_ready else "No node is Ready yet"


async def _get(connection: ConnectionConfig, path: str, timeout_s: float) -> Reply:
    transport = HttpsTransport(connection)
    try:
        async with asyncio.timeout(timeout_s):
            return await transport.request(Call("GET", path, {}, {}))
    finally:
        await transport.close()
